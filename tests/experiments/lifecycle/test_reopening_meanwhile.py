"""Reopening an experiment while its events are recorded."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from config.models import Environment
from events.recording import record
from experiments.lifecycle.changes import reopen_experiment
from experiments.models import Exposure
from tests.experiments.lifecycle.shipping import step_arguments
from tests.experiments.lifecycle.test_reopening import see, stop
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads


@pytest.mark.django_db(transaction=True)
def test_reopen__exposure_reported_while_it_is_under_way__counts(threads: Threads) -> None:
    production = Environment.objects.get(key="production")
    ExperimentFactory(key="e", running=True)
    stopped_at = stop(production)

    with transaction.atomic():
        reopen_experiment(**step_arguments(production))
        recording = threads.start(record, [see("u", stopped_at + timedelta(seconds=5))], production)
        with pytest.raises(TimeoutError):
            recording.result(0.3)
        assert not Exposure.objects.exists()

    recording.result(SECONDS)
    assert Exposure.objects.get().user_id == "u"


@pytest.mark.django_db(transaction=True)
def test_reopen__report_under_way_that_saw_it_stopped__is_found_by_the_reopening(threads: Threads) -> None:
    production = Environment.objects.get(key="production")
    ExperimentFactory(key="e", running=True)
    stopped_at = stop(production)

    with transaction.atomic():
        record([see("u", stopped_at + timedelta(seconds=5))], production)
        reopening = threads.start(lambda: reopen_experiment(**step_arguments(production)))
        with pytest.raises(TimeoutError):
            reopening.result(0.3)

    assert reopening.result(SECONDS).status == "running"
    assert Exposure.objects.get().user_id == "u"
