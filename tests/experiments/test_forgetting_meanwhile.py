"""A user erased while events of the same user are recorded: either all of it goes, or what stays has its exposure."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from config.models import Environment
from events.erasure import Erased, erase_user
from events.ingest import new_id, record
from events.models import Event
from events.rows import NewEvent
from experiments import exposure_rows, exposures
from experiments.lifecycle import start_experiment
from experiments.models import Exposure
from tests.conftest import ACTOR, NOON
from tests.events.counting import real_counts, stored_counts
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads, database_for_threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def threads(transactional_db: None, tmp_path: Path) -> Iterator[Threads]:
    threads = Threads()
    with database_for_threads(tmp_path):
        yield threads
        threads.join()


@pytest.fixture
def production(threads: Threads) -> Environment:
    return Environment.objects.get(key="production")


def see(variant: str = "green", second: float = 1) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), "u", "seen", moment, moment, {"experimentId": "e", "variant": variant})


def test_erase_user__exposure_that_a_batch_under_way_has_found__goes_with_the_batch(
    production: Environment, threads: Threads
) -> None:
    ExperimentFactory(key="e", running=True)
    record([see()], production)

    with transaction.atomic():
        record([see(second=2)], production)
        erasing: Future[Erased] = threads.start(erase_user, "u", production)
        with pytest.raises(TimeoutError):
            erasing.result(0.3)

    erased = erasing.result(SECONDS)
    assert (erased.events, erased.exposures) == (2, 1)
    assert not Event.objects.exists()
    assert not Exposure.objects.exists()
    assert stored_counts() == real_counts()


def test_erase_user__start_under_way_that_has_read_the_events__loses_what_it_stored(
    production: Environment, threads: Threads
) -> None:
    experiment = ExperimentFactory(key="e")
    record([see()], production)

    with transaction.atomic():
        start_experiment(key="e", environment=production, actor=ACTOR, at=NOON, started_at=NOON)
        assert Exposure.objects.count() == 1
        erasing: Future[Erased] = threads.start(erase_user, "u", production)
        with pytest.raises(TimeoutError):
            erasing.result(0.3)

    erased = erasing.result(SECONDS)
    assert (erased.events, erased.exposures) == (1, 1)
    assert [(each.id, each.status) for each in erased.experiments] == [(experiment.pk, "running")]
    assert not Exposure.objects.exists()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")
def test_record__exposure_erased_before_it_can_be_held__is_stored_again(
    production: Environment, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(key="e", running=True)
    record([see("green")], production)
    insert_new = exposure_rows.insert_new
    erased: list[Any] = []

    def insert_and_erase(reported: Any) -> Any:
        inserted = insert_new(reported)
        if not erased:
            erased.append(threads.start(erase_user, "u", production).result(SECONDS))
        return inserted

    monkeypatch.setattr(exposures, "insert_new", insert_and_erase)
    record([see("control", second=2)], production)

    assert [(each.events, each.exposures) for each in erased] == [(1, 1)]
    assert Event.objects.get().variant == "control"
    stored = Exposure.objects.get()
    assert (stored.variant, stored.exposed_at, stored.is_in_several_variants) == (
        "control",
        NOON + timedelta(seconds=2),
        False,
    )
