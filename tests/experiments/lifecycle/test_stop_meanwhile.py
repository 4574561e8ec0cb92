"""Users who are assigned while an experiment is stopped: all who get a variant count."""

from __future__ import annotations

from datetime import timedelta
from threading import Event as Signal
from threading import Thread

import pytest
from django.db import connection
from django.utils import timezone

from config import snapshot
from config.errors import DomainError
from config.models import Environment
from experiments.exposures.assignment import get_variant, get_variants
from experiments.exposures.recording import assign
from experiments.lifecycle.decisions import stop_experiment
from experiments.models import Exposure
from experiments.results.analyse import compute_results
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

WINNERS = [None, "green"]


@pytest.mark.django_db
@pytest.mark.parametrize("winner", WINNERS)
def test_stop__whose_request_came_long_before__counts_who_was_answered_until_then(
    production: Environment, winner: str | None
) -> None:
    experiment = ExperimentFactory(key="button", running=True, started_at=timezone.now() - timedelta(days=1))
    snapshot.refresh()
    received, answered = timezone.now(), timezone.now() + timedelta(seconds=1)
    get_variant(key="button", environment=production, user_id="ada", now=answered)
    moment = answered + timedelta(seconds=1)
    stopped = stop_experiment(
        key="button",
        environment=production,
        actor=ACTOR,
        now=received,
        winner=winner,
        reason="so",
        clock=lambda: moment,
    )
    assert stopped.stopped_at == moment
    results = compute_results(stopped, moment)
    assert sum(result.sample_size for result in results.values()) == 1
    with pytest.raises(DomainError, match="stopped"):
        assign(experiment.pk, "late", "green", moment + timedelta(seconds=1))  # by a process that has not heard
    assert Exposure.objects.count() == 1


@pytest.mark.django_db
def test_variants__of_an_experiment_stopped_meanwhile__are_left_out(production: Environment) -> None:
    for key in ("gone", "left"):
        ExperimentFactory(key=key, running=True)
    snapshot.refresh()
    moment = NOON + timedelta(days=1)
    which = {"environment": production, "user_id": "ada", "attributes": {}, "record": True}
    assert [*get_variants(**which, now=moment)] == ["gone", "left"]
    stop_experiment(key="gone", environment=production, actor=ACTOR, now=moment)
    which["user_id"] = "bob"  # this process has not heard of the stop, which it does between requests
    assert [*get_variants(**which, now=timezone.now())] == ["left"]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("winner", WINNERS)
def test_stop__while_many_are_assigned__counts_exactly_those_who_were_answered(
    production: Environment, winner: str | None
) -> None:
    ExperimentFactory(key="button", running=True, started_at=timezone.now() - timedelta(days=1))
    snapshot.refresh()
    answered: list[str] = []
    over, begun = Signal(), Signal()

    def ask(number: int) -> None:
        try:
            for count in range(10_000):
                if over.is_set():
                    return
                user_id = f"{number}-{count}"
                get_variant(key="button", environment=production, user_id=user_id, now=timezone.now())
                answered.append(user_id)
                if count == 5:
                    begun.set()
        except DomainError:
            pass
        finally:
            connection.close()

    threads = [Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(30)
    which = {"environment": production, "actor": ACTOR, "now": timezone.now(), "reason": "so"}
    stopped = stop_experiment(key="button", **which, winner=winner, clock=timezone.now)
    over.wait(0.2)
    over.set()
    for thread in threads:
        thread.join(30)
    exposures = Exposure.objects.filter(exposed_at__lte=stopped.stopped_at)
    assert set(exposures.values_list("user_id", flat=True)) == set(answered)
    assert Exposure.objects.count() == len(answered)
    results = compute_results(stopped, timezone.now())
    assert sum(result.sample_size for result in results.values()) == len(answered)
