"""A metric changes while an experiment starts: the experiment has one complete definition of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from config.models import Change, Environment
from experiments.lifecycle.changes import start_experiment
from experiments.metrics.changes import create_metric, get_metric, update_metric
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = {"actor": ACTOR, "now": NOON}


@pytest.fixture
def draft(threads: Threads) -> Experiment:
    create_metric(key="views", type="count", event="view", window_hours=24, **WRITE)
    return ExperimentFactory(key="e", metrics=["views"])


def start(environment: Environment) -> Any:
    return start_experiment(key="e", environment=environment, **WRITE)


def widen() -> Any:
    return update_metric(key="views", changes={"window_hours": 48}, **WRITE)


def measured() -> tuple[int, timedelta | None]:
    [definition] = definitions_of(Experiment.objects.get(key="e"))
    return definition.version, definition.window


def test_start__while_a_change_of_meaning_is_under_way__waits_and_takes_the_new_meaning(
    draft: Experiment, threads: Threads
) -> None:
    with transaction.atomic():
        assert widen().version == 1
        starting = threads.start(start, draft.environment)
        with pytest.raises(TimeoutError):
            starting.result(0.3)

    starting.result(SECONDS)
    assert measured() == (1, timedelta(hours=48))
    assert get_metric("views").version == 1


def test_change_of_meaning__while_a_start_is_under_way__waits_and_becomes_a_new_version(
    draft: Experiment, threads: Threads
) -> None:
    with transaction.atomic():
        start(draft.environment)
        changing = threads.start(widen)
        with pytest.raises(TimeoutError):
            changing.result(0.3)

    assert changing.result(SECONDS).version == 2
    assert measured() == (1, timedelta(hours=24))


def test_start_and_change_of_meaning__at_once_many_times__agree_with_the_change_log(
    draft: Experiment, threads: Threads
) -> None:
    changing = [threads.start(change_to, hours) for hours in range(100, 108)]
    starting = threads.start(start, draft.environment)
    for thread in [*changing, starting]:
        thread.result(SECONDS)

    [log] = Change.objects.filter(kind="experiment", before__isnull=False)
    before = Change.objects.filter(kind="metric", revision__lt=log.revision).latest("revision").after
    assert log.after is not None
    assert before is not None
    [definition] = log.after["definitions"]
    assert (definition["version"], definition["windowHours"]) == (1, before["windowHours"])
    later = [change.after["version"] for change in Change.objects.filter(kind="metric", revision__gt=log.revision)]
    assert set(later) <= {2}


def change_to(hours: int) -> Any:
    return update_metric(key="views", changes={"window_hours": hours}, **WRITE)
