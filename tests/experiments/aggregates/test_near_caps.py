"""Marking the users near caps: whose values are great enough, and what finding a cap reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from config.models import Environment
from events.recording.ingest import NewEvent, new_id, record
from experiments.aggregates import update
from experiments.aggregates.checking import check_sums
from experiments.aggregates.near_caps import Bound, read_bounds
from experiments.aggregates.refresh import refresh
from experiments.aggregates.update import AggregateUpdater
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import AggregateState, Experiment, UserTotal
from tests.conftest import NOON
from tests.experiments.aggregates.histories import make_experiment
from tests.experiments.aggregates.test_refresh import check

pytestmark = pytest.mark.django_db(transaction=True)

SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount"), cap_percentile=90)
USERS = 40


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    return with_users(production, SPENT)


def with_users(production: Environment, *definitions: Definition) -> Experiment:
    experiment = make_experiment(production, *definitions)
    for number in range(USERS):
        assign(experiment.pk, f"u{number}", "green", NOON)
    refresh(experiment, NOON)
    return experiment


def buy(production: Environment, amounts: Mapping[int, float]) -> None:
    events = [NewEvent(new_id(), f"u{user}", "buy", NOON, NOON, {"amount": amount}) for user, amount in amounts.items()]
    record(events, production)


def fold(experiment: Experiment) -> AggregateState:
    state = refresh(experiment, NOON)
    check(experiment)
    return state


def marked(experiment: Experiment) -> set[int]:
    users = UserTotal.objects.filter(experiment=experiment, is_near_cap=True).values_list("user_id", flat=True)
    return {int(user_id[1:]) for user_id in users}


def forbid_reading_all_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("All totals were read.")

    monkeypatch.setattr(AggregateUpdater, "_move_among_all", fail)


def test_refresh__caps_that_move__are_found_among_the_marked_users(
    experiment: Experiment, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_reading_all_totals(monkeypatch)
    buy(production, {user: user + 1 for user in range(10)})
    assert fold(experiment).caps == {"0": 9}

    buy(production, {user: user + 1 for user in range(10, USERS)})
    assert fold(experiment).caps == {"0": 36}
    assert marked(experiment) == {*range(32, USERS)}  # twice as many as are above the cap

    buy(production, {0: 100, 1: 200})
    assert fold(experiment).caps == {"0": 38}
    assert marked(experiment) == {0, 1, *range(32, USERS)}
    assert check_sums(experiment, NOON) == []


def test_refresh__cap_that_falls_below_its_bound__is_found_among_all(
    experiment: Experiment, production: Environment
) -> None:
    buy(production, {user: user + 1 for user in range(USERS)})
    fold(experiment)
    buy(production, dict.fromkeys(range(20, USERS), -20.5))

    state = fold(experiment)
    assert state.caps == {"0": 18}
    assert read_bounds(state)[0].value < 18
    assert check_sums(experiment, NOON) == []


def test_refresh__many_users_with_the_value_of_the_cap__have_no_bound(
    experiment: Experiment, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    buy(production, dict.fromkeys(range(20), 5))
    fold(experiment)
    buy(production, {20: 5})
    state = fold(experiment)
    assert read_bounds(state) == {0: Bound(None, 20)}
    assert marked(experiment) == set()

    looked_for: list[int] = []
    monkeypatch.setattr("experiments.aggregates.near_caps.NearCaps._set", lambda *given: looked_for.append(given[1]))
    buy(production, {21: 5})
    assert fold(experiment).caps == {"0": 5}
    assert looked_for == []


def test_refresh__values_before_the_exposure__are_marked_too(production: Environment) -> None:
    experiment = with_users(production, SPENT)
    buy(production, {user: user + 1 for user in range(USERS)})
    fold(experiment)
    before = NOON.replace(hour=0)
    record([NewEvent(new_id(), "u3", "buy", before, before, {"amount": 1000})], production)
    fold(experiment)

    assert 3 in marked(experiment)
    assert check_sums(experiment, NOON) == []


def test_refresh__bound_of_one_metric__keeps_the_users_of_another(production: Environment) -> None:
    looked = replace(SPENT, key="looked", quantity=Quantity("look", "amount"))
    experiment = with_users(production, SPENT, looked)
    looks = [NewEvent(new_id(), f"u{user}", "look", NOON, NOON, {"amount": user}) for user in range(1, 11)]
    record(looks, production)
    fold(experiment)
    buy(production, {user: user + 1 for user in range(USERS)})
    state = fold(experiment)

    assert read_bounds(state) == {0: Bound(32.0, 40), 1: Bound(8.0, 10)}
    assert marked(experiment) == {9, 10, *range(32, USERS)}
    assert check_sums(experiment, NOON) == []


def test_refresh__aggregates_of_the_release_before__have_no_bounds(
    experiment: Experiment, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That release computes users without marking them."""
    buy(production, {user: user + 1 for user in range(USERS)})
    state = fold(experiment)
    state.mark = state.mark.replace("5 ", "4 ", 1)
    state.save()
    UserTotal.objects.update(is_near_cap=False)
    monkeypatch.setattr(update.AggregateUpdater, "compute_all", lambda *_: pytest.fail("All users were computed."))
    buy(production, {0: 100})

    assert fold(experiment).caps == {"0": 37}
    assert check_sums(experiment, NOON) == []


def test_refresh__percentile_in_the_middle__marks_nobody(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "LEAST_PERCENTILE", 90)
    experiment = with_users(production, replace(SPENT, cap_percentile=50))
    buy(production, {user: user + 1 for user in range(USERS)})

    assert read_bounds(fold(experiment)) == {}
    assert marked(experiment) == set()


def test_check_sums__user_near_a_cap_without_a_mark__is_found(experiment: Experiment, production: Environment) -> None:
    buy(production, {user: user + 1 for user in range(USERS)})
    fold(experiment)
    UserTotal.objects.filter(user_id="u39").update(is_near_cap=False)

    [difference] = check_sums(experiment, NOON)
    assert (difference.metric, difference.name, difference.kept) == ("spent", "users who are not marked", 1)
