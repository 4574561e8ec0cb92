"""For how long the results of experiments have not been brought up to date, as `/metrics` shows it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import Error, connection
from django.db.models import Min
from django.db.models.functions import Coalesce
from django.utils import timezone

from config.management.examinations import Finding, Options, ok, warning
from config.monitoring import counting, metrics
from experiments.models import Experiment, Status

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 30
_MAX_LAG = timedelta(hours=2)
_FIRST_PROCESS = "worker-1"
"""The one that looks: the others would find the same."""


def longest(now: datetime) -> timedelta:
    """Return the longest time since the results of a running experiment were brought up to date, or since its start."""
    moment = Coalesce("result_state__refreshed_at", "started_at")
    oldest = Experiment.objects.filter(status=Status.RUNNING).aggregate(oldest=Min(moment))["oldest"]
    return max(timedelta(), now - oldest) if oldest is not None else timedelta()


def examine(_: Options) -> Iterator[Finding]:
    """Tell `manage.py doctor` whether somebody brings results up to date."""
    lag = longest(timezone.now())
    hours = lag.total_seconds() / 3600
    if lag > _MAX_LAG:
        words = f"Results of a running experiment were not brought up to date for {hours:,.0f} hours."
        yield warning(words, "Let cron run `manage.py maintain` once an hour, and look at what it prints.")
    else:
        yield ok(f"The results of running experiments are at most {hours:,.1f} hours old.")


def start(**_: object) -> None:
    """Look regularly, in one process of a server."""
    if counting.process.name == _FIRST_PROCESS:
        threading.Thread(target=_run, name="refresh-lag", daemon=True).start()


def _run() -> None:
    while True:
        look(timezone.now())
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def look(now: datetime) -> None:
    """Measure the lag. While the database is away, it grows unseen."""
    try:
        metrics.refresh_lag.set(longest(now).total_seconds())
    except (Error, OSError):  # others log that the database is away
        connection.close()
    except Exception:  # any error at all: this thread must go on
        logger.exception("Cannot measure how far results are behind; trying again")
