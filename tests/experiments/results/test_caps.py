"""Caps that move with the values of users, and finding a value by its rank.

Ranks are compared with sorting: as each database finds them, and by counting on any PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from sys import float_info
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment, ResultState, UserValue
from experiments.results import caps, update
from experiments.results.caps import find_by_rank, find_cap
from experiments.results.check import check_sums
from experiments.results.refresh import refresh
from experiments.results.update import Update
from tests.conftest import NOON
from tests.experiments.results.histories import make_experiment
from tests.experiments.results.test_refresh import check, stored_sums
from tests.factories import ExperimentFactory
from tests.transactions import undone

pytestmark = pytest.mark.django_db

CHANCE = Random(1)
VALUES = {
    "none": [],
    "one": [7.25],
    "equal": [2.0] * 9,
    "ties": [*[3.0] * 5, *[1.0] * 7, 2.0, 2.0, *[-1.0] * 3, 0.0],
    "negative": [-1.0, -2.5, -1e100, -2.5, -1e-100],
    "neighbours": [1.0, 1.0 + float_info.epsilon, 1.0 - float_info.epsilon, 1.0],
    "huge and tiny": [1e100, 1e-100, -1e100, -1e-100, 5e-324, 0.0, 1e99, 1.5e-100, 1e100],
    "of any size": [CHANCE.choice([-1, 1]) * 10 ** CHANCE.uniform(-100, 100) for _ in range(60)],
    "amounts": [round(CHANCE.lognormvariate(3, 1), 2) for _ in range(60)],
}


# SQLite has no servers that count.
WAYS = ["as usual", *(["counting", "counting to the end"] if connection.vendor == "postgresql" else [])]


@pytest.fixture(params=WAYS)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count also on one server, and until a part has one value, as where each has more users than are fetched."""
    if request.param != "as usual":
        monkeypatch.setattr(caps, "is_distributed", lambda: True)
    if request.param == "counting to the end":
        monkeypatch.setattr(caps, "MAX_FETCHED", 0)
        monkeypatch.setattr(caps, "PARTS", 4)


def store(environment: Environment, values: Sequence[float]) -> QuerySet[UserValue]:
    experiment = ExperimentFactory(environment=environment, running=True)
    state = ResultState.objects.create(experiment=experiment)
    place = {"state": state, "metric": 0, "variant_number": 1, "phase": 1, "day": NOON.date()}
    UserValue.objects.bulk_create(
        UserValue(**place, user_id=f"u{index}", value=value) for index, value in enumerate(values)
    )
    return UserValue.objects.filter(state=state)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_find_by_rank__any_values__is_the_same_as_sorting(production: Environment, values: Sequence[float]) -> None:
    rows = store(production, values)
    found = [find_by_rank(rows, "value", rank) for rank in range(len(values) + 2)]
    assert found == [*sorted(values, reverse=True), None, None]


def test_thresholds__of_all_floats__separate_any_two_of_them_in_eight_splits() -> None:
    for value in (0.0, 5e-324, -1e-100, 1.0, 1e100, float_info.max):
        least, greatest, splits = -float_info.max, float_info.max, 0
        while least < greatest:
            bounds = [least, *caps._thresholds(least, greatest)]
            assert bounds == sorted({*bounds})
            assert bounds[-1] == greatest
            at = max(at for at, bound in enumerate(bounds) if bound <= value)
            # The greatest value of a part is the float before the next part.
            least, greatest = bounds[at], greatest if at + 1 == len(bounds) else before(bounds[at + 1])
            splits += 1
        assert least == value
        assert splits <= 8


def before(value: float) -> float:
    return caps._float_at(caps._place_of(value) - 1)


# caps that move


SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount"), cap_percentile=90)
HALF = replace(SPENT, key="half", cap_percentile=50)
LOOKED = replace(SPENT, key="looked", quantity=Quantity("look", "amount"))
BEFORE = NOON - timedelta(hours=1)


def with_users(production: Environment, users: int, *definitions: Definition) -> Experiment:
    experiment = make_experiment(production, *definitions)
    for number in range(users):
        assign(experiment.pk, f"u{number}", "green", NOON)
    refresh(experiment, NOON)
    return experiment


def spend(production: Environment, amounts: Mapping[int, float], name: str = "buy", at: datetime = NOON) -> None:
    record(
        [NewEvent(new_id(), f"u{user}", name, at, at, {"amount": value}) for user, value in amounts.items()], production
    )


def caps_after_refresh(experiment: Experiment) -> dict[str, float]:
    """Refresh, and check that values and sums are those of counting by hand, and sums exact."""
    state = refresh(experiment, NOON)
    check(experiment)
    assert stored_sums(experiment) == Update(state, experiment).sums_of_values()
    assert check_sums(experiment, NOON) == []
    return state.caps


@pytest.fixture(params=[0, 1e6], ids=["by user", "in one pass"])
def _plan_of_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "_EVENTS_A_USER", request.param)


@pytest.mark.usefixtures("_plan_of_statements")
def test_refresh__caps_that_move__count_all_users_by_them(production: Environment) -> None:
    experiment = with_users(production, 40, SPENT)
    spend(production, {user: user + 1 for user in range(10)})
    assert caps_after_refresh(experiment) == {"0": 9}
    spend(production, {user: user + 1 for user in range(10, 40)})
    assert caps_after_refresh(experiment) == {"0": 36}
    spend(production, {0: 100, 1: 200})
    assert caps_after_refresh(experiment) == {"0": 38}
    spend(production, dict.fromkeys(range(20, 40), -20.5))  # refunds
    assert caps_after_refresh(experiment) == {"0": 19}
    spend(production, {3: 1000}, at=BEFORE)  # above the cap before the exposure, and below it afterwards
    assert caps_after_refresh(experiment) == {"0": 19}
    spend(production, {5: 10**17, 6: 3}, at=BEFORE)
    assert caps_after_refresh(experiment) == {"0": 19}
    spend(production, {5: 1024 - 10**17}, at=BEFORE)  # the capped value stays the same
    assert caps_after_refresh(experiment) == {"0": 19}
    erase_user("u0", production)
    assert caps_after_refresh(experiment) == {"0": 19}


def test_refresh__percentile_in_the_middle_that_moves__counts_all_users_by_it(production: Environment) -> None:
    for new, cap in [
        ({0: 1}, 10),
        ({0: 1, 1: 5}, 11),
        ({0: 90, 1: 90}, 100),
        ({2: 1, 3: 2}, 2),
        ({2: -7, 3: -8}, 0),
    ]:
        with undone():
            experiment = with_users(production, 4, HALF)
            spend(production, {0: 10, 1: 10})
            spend(production, {1: 30}, at=BEFORE)
            refresh(experiment, NOON)
            spend(production, new)
            assert caps_after_refresh(experiment) == ({"0": cap} if cap else {})


def test_refresh__many_users_with_the_value_of_the_cap__count_by_it(production: Environment) -> None:
    experiment = with_users(production, 30, SPENT)
    spend(production, dict.fromkeys(range(20), 5))
    assert caps_after_refresh(experiment) == {"0": 5}
    spend(production, {20: 5, 21: 6})
    assert caps_after_refresh(experiment) == {"0": 5}


@pytest.mark.django_db(transaction=True)  # what a transaction has written itself is always new to it
def test_refresh__caps_of_two_metrics__move_on_their_own(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    def find_and_note(definition: Definition, *arguments: Any) -> float | None:
        looked_for.append(definition.key)
        return find_cap(definition, *arguments)

    experiment = with_users(production, 40, SPENT, LOOKED)
    monkeypatch.setattr(update, "_EVENTS_A_USER", 0)
    spend(production, {user: user for user in range(1, 11)}, name="look")
    assert caps_after_refresh(experiment) == {"1": 9}
    spend(production, {user: user + 1 for user in range(30)})
    assert caps_after_refresh(experiment) == {"0": 27, "1": 9}
    monkeypatch.setattr(update, "find_cap", find_and_note)
    spend(production, {30: 50}, name="look")

    assert refresh(experiment, NOON).caps == {"0": 27, "1": 10}
    assert looked_for == ["looked"]
    check(experiment)
