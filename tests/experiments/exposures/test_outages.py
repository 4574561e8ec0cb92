"""Variants while the database is away: of users whom this process remembers, and by flags for everybody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from config.database.outages import Circuit
from config.models import Environment
from config.snapshot import signal_file
from config.snapshot.tables import Lateness, current
from experiments.exposures import assignment
from experiments.models import Exposure
from flags.changes.flag_changes import create_flag
from tests.answers import data, error, is_stale
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory
from tests.outage import database_away

pytestmark = [pytest.mark.both_lanes, pytest.mark.django_db(transaction=True)]

WRITE = {"actor": ACTOR, "now": NOON}


@pytest.fixture(autouse=True)
def _circuits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "_reading", Circuit("reading", patience=600))
    monkeypatch.setattr(assignment, "_recording", Circuit("recording", patience=600))


def reopen_circuits() -> None:
    """As after a second."""
    assignment._reading._next_try = assignment._recording._next_try = 0.0


@pytest.fixture
def client(transactional_db: None, api: Any, production: Environment) -> Any:
    """A client of a process that knows the experiment `e`, which drives the flag `f`."""
    create_flag(key="f", environment=production, enabled=True, **WRITE)
    ExperimentFactory(key="e", flag={"key": "f", "serves": {"control": False, "green": True}}, running=True)
    evaluate(api, "first")
    return api


def variant_of(client: Any, user_id: str) -> Any:
    return client.post("/v1/experiments/e/variant", {"userId": user_id})


def evaluate(client: Any, user_id: str) -> Any:
    return data(client.post("/v1/flags/f/evaluate", {"userId": user_id}))


def by_ofrep(client: Any, user_id: str) -> Any:
    return client.post("/ofrep/v1/evaluate/flags/f", {"context": {"targetingKey": user_id}}).json()


def exposed() -> set[str]:
    return set(Exposure.objects.values_list("user_id", flat=True))


@pytest.fixture
def poked(client: Any) -> Callable[[], None]:
    """Make the process believe that there is a change which it cannot read."""
    return signal_file.signal_change


def test_variant__remembered_user__is_answered_without_the_database(client: Any) -> None:
    before = data(variant_of(client, "u"))
    data(variant_of(client, "u"))  # by now it is remembered
    current.lateness = Lateness.CUT_OFF
    with database_away() as tried:
        answer = variant_of(client, "u")
    assert (data(answer), is_stale(answer)) == (before, True)
    assert not tried


def test_variant__remembered_user_after_a_change__is_answered_without_the_database(client: Any, poked: Any) -> None:
    before = data(variant_of(client, "u"))
    data(variant_of(client, "u"))
    poked()
    with database_away():
        assert [data(variant_of(client, "u")) for _ in range(3)] == [before] * 3


def test_variant__remembered_user_after_hours_of_outage__is_still_answered(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data(variant_of(client, "u"))
    data(variant_of(client, "u"))
    current.lateness = Lateness.CUT_OFF
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 7200)
    with database_away():
        assert data(variant_of(client, "u")) == before


@pytest.mark.parametrize("is_late", [False, True])
def test_variant__other_user__is_refused_and_recorded_when_the_database_is_back(client: Any, is_late: bool) -> None:
    with database_away():
        current.lateness = Lateness.CUT_OFF if is_late else Lateness.NONE
        refused = variant_of(client, "u")
    assert error(refused, 503, "unavailable")
    assert refused["Retry-After"] == "1"
    assert "u" not in exposed()
    current.lateness = Lateness.NONE
    reopen_circuits()
    data(variant_of(client, "u"))
    assert "u" in exposed()


def test_variant__other_user_after_a_change__is_refused_without_a_try(client: Any, poked: Any) -> None:
    poked()
    with database_away() as tried:
        variant_of(client, "u")
        tried.clear()
        assert error(variant_of(client, "v"), 503, "unavailable")
        assert not tried


def test_variants__all_remembered__are_answered_without_the_database(client: Any) -> None:
    body = {"userId": "u", "record": True}
    before = data(client.post("/v1/variants", body))
    assert data(client.post("/v1/variants", body)) == before
    current.lateness = Lateness.CUT_OFF
    with database_away():
        assert data(client.post("/v1/variants", body)) == before
        assert error(client.post("/v1/variants", {"userId": "v", "record": True}), 503, "unavailable")


@pytest.mark.parametrize("user_id", [f"user-{number}" for number in range(6)])
def test_flag__new_user__is_evaluated_by_the_hash_and_recorded_at_the_next_evaluation(
    client: Any, user_id: str
) -> None:
    with database_away():
        during = evaluate(client, user_id)
        assert by_ofrep(client, user_id)["value"] == during["enabled"]
    assert user_id not in exposed()
    reopen_circuits()
    assert evaluate(client, user_id) == during
    assert Exposure.objects.get(user_id=user_id).variant == ("green" if during["enabled"] else "control")


def test_flag__user_with_another_variant_than_the_hash_gives__keeps_it_if_remembered(client: Any) -> None:
    natural = evaluate(client, "u")["enabled"]
    other = "control" if natural else "green"
    Exposure.objects.filter(user_id="u").update(variant=other)
    signal_file.signal_change()
    assert evaluate(client, "u")["enabled"] is not natural
    with database_away() as tried:
        assert evaluate(client, "u")["enabled"] is not natural
        assert not tried
        evaluate(client, "another")
        assert evaluate(client, "u")["enabled"] is not natural


def test_flag__database_that_only_reads__is_evaluated_and_recorded_later(client: Any) -> None:
    with database_away(for_writes_alone=True) as tried:
        during = evaluate(client, "u")
        assert tried
    assert "u" not in exposed()
    reopen_circuits()
    assert evaluate(client, "u") == during
    assert "u" in exposed()


def test_flag__many_users_during_an_outage__try_the_database_once(client: Any) -> None:
    with database_away() as tried:
        for number in range(20):
            evaluate(client, f"user-{number}")
    assert len(tried) <= 2  # a read, and a write


def test_flags__all_of_a_user__are_evaluated_during_an_outage(client: Any) -> None:
    with database_away():
        assert set(data(client.post("/v1/evaluate", {"userId": "u"}))) == {"f"}
        assert client.post("/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u"}}).status_code == 200
