"""Which part of the change log experiments need: all since the start of the oldest whose results are not frozen."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Min

from experiments.models import Experiment


def needed_history(**_: object) -> datetime | None:
    started: datetime | None = Experiment.objects.filter(frozen_at=None).aggregate(first=Min("started_at"))["first"]
    return started
