"""Daily changes: which users they are corrected for, and when they are computed again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording.ingest import NewEvent, new_id, record
from experiments.aggregates import daily_changes, statements
from experiments.aggregates.checking import check_sums
from experiments.aggregates.daily_changes import update_series
from experiments.aggregates.refresh import refresh
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import AggregateState, DailyChange, Experiment, Exposure, SeriesUser
from tests.conftest import ACTOR, NOON
from tests.experiments.aggregates.histories import make_experiment
from tests.experiments.aggregates.test_history import DAY, check

pytestmark = pytest.mark.django_db(transaction=True)

POSITIVE = (Condition("amount", "greaterThan", 0),)
BOUGHT = Definition("bought", 1, "count", Quantity("buy"))
SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount", where=POSITIVE), cap_percentile=80)
NET = Definition("net", 1, "sum", Quantity("buy", "amount"), cap_percentile=80)
USERS = "abcdefghij"


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setattr(statements, "_EVENTS_A_USER", 0)  # so that changes are corrected
    return Environment.objects.get(key="production")


def with_users(production: Environment, *definitions: Definition) -> Experiment:
    """An experiment whose users were exposed at NOON and bought for 1 to 10 a day later, with a series of two days."""
    experiment = make_experiment(production, *definitions)
    for amount, user in enumerate(USERS, 1):
        assign(experiment.pk, user, "green", NOON)
        buy(production, user, amount, NOON + DAY)
    read(experiment, NOON + 2 * DAY)
    return experiment


def buy(production: Environment, user: str, amount: float, at: datetime) -> None:
    record([NewEvent(new_id(), user, "buy", at, at, {"amount": amount})], production)


def read(experiment: Experiment, at: datetime) -> None:
    refresh(experiment, at)
    update_series(experiment, at)


def outdated(experiment: Experiment, at: datetime) -> str:
    refresh(experiment, at)
    return "".join(sorted(SeriesUser.objects.values_list("user_id", flat=True)))


def note_computed_afresh(monkeypatch: pytest.MonkeyPatch) -> list[Collection[int]]:
    """Return a list to which the metrics are added whose daily changes are computed again for all users."""
    afresh: list[Collection[int]] = []
    compute = daily_changes._computed_afresh

    def note(state: Any, experiment: Any, metrics: Collection[int], *others: Any) -> Any:
        afresh.append(metrics)
        return compute(state, experiment, metrics, *others)

    monkeypatch.setattr(daily_changes, "_computed_afresh", note)
    return afresh


def test_refresh__events_of_a_day_that_is_not_over__make_no_user_outdated(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    before = list(DailyChange.objects.values())
    buy(production, "a", 1, NOON + 2 * DAY)
    assign(experiment.pk, "new", "green", NOON + 2 * DAY)
    buy(production, "new", 1, NOON + 2 * DAY)

    assert outdated(experiment, NOON + 2 * DAY) == ""
    update_series(experiment, NOON + 2 * DAY)
    assert list(DailyChange.objects.values()) == before
    assert check_sums(experiment, NOON + 2 * DAY) == []


def test_update_series__day_is_over__adds_what_happened_on_it(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, BOUGHT, SPENT)
    afresh = note_computed_afresh(monkeypatch)
    buy(production, "a", 1, NOON + 2 * DAY)
    buy(production, "b", 100, NOON + 3 * DAY)
    assign(experiment.pk, "new", "green", NOON + 3 * DAY)
    buy(production, "new", 3, NOON + 2 * DAY)  # before its exposure
    check(experiment, NOON + 4 * DAY)

    assert afresh == []
    assert check_sums(experiment, NOON + 4 * DAY) == []


def test_refresh__late_events_and_exposures__make_their_users_outdated(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    buy(production, "a", 1, NOON + 2 * DAY)
    buy(production, "b", 1, NOON + DAY)
    assign(experiment.pk, "late", "green", NOON + DAY)
    assign(experiment.pk, "new", "green", NOON + 2 * DAY)

    assert [*SeriesUser.objects.all()] == []
    assert outdated(experiment, NOON + 2 * DAY) == "blate"
    assert SeriesUser.objects.values_list("exposed_at", flat=True).get(user_id="b") == NOON
    check(experiment, NOON + 2 * DAY)
    check(experiment, NOON + 3 * DAY)


def test_refresh__exposure_that_is_no_longer_in_the_past__makes_its_user_outdated(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    later = Exposure.objects.get(user_id="a")
    later.exposed_at = NOON + 2 * DAY
    later.save()

    assert outdated(experiment, NOON + 2 * DAY) == "a"
    check(experiment, NOON + 2 * DAY)


@pytest.mark.parametrize(
    ("user", "amount", "above"),
    [("a", 0.5, ""), ("j", 1, ""), ("c", 5.5, "cij"), ("a", 500, "aij")],
    ids=["below the cap", "above the cap", "to a new cap", "over the cap"],
)
def test_refresh__cap_rises__makes_the_users_above_it_outdated(
    production: Environment, monkeypatch: pytest.MonkeyPatch, user: str, amount: float, above: str
) -> None:
    experiment = with_users(production, SPENT)
    afresh = note_computed_afresh(monkeypatch)
    buy(production, user, amount, NOON + 2 * DAY)

    assert outdated(experiment, NOON + 2 * DAY) == above
    check(experiment, NOON + 2 * DAY)
    assert afresh == []
    assert check_sums(experiment, NOON + 2 * DAY) == []


def test_refresh__cap_falls_far__makes_the_users_above_it_outdated(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, SPENT)
    afresh = note_computed_afresh(monkeypatch)
    for number in range(10):
        assign(experiment.pk, f"u{number}", "green", NOON + 2 * DAY)
        buy(production, f"u{number}", 1, NOON + 2 * DAY)

    assert outdated(experiment, NOON + 2 * DAY) == "ghij"
    check(experiment, NOON + 2 * DAY)
    assert afresh == []


def test_update_series__amounts_may_fall__computes_the_metric_again_when_its_cap_moves(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, BOUGHT, NET)
    afresh = note_computed_afresh(monkeypatch)
    buy(production, "j", -9, NOON + 2 * DAY)  # the most on the day before, and now less than any cap
    check(experiment, NOON + 2 * DAY)
    assert [*map(set, afresh)] == [{1}]

    buy(production, "a", 50, NOON + 2 * DAY)
    check(experiment, NOON + 2 * DAY)
    assert [*map(set, afresh)] == [{1}, {1}]


def test_update_series__no_amount_is_negative__corrects_the_metric(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, BOUGHT, NET)
    afresh = note_computed_afresh(monkeypatch)
    buy(production, "a", 50, NOON + 2 * DAY)
    check(experiment, NOON + 2 * DAY)

    assert afresh == []


def test_check_sums__days_after_a_stop_dated_back__are_left_out(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    assign(experiment.pk, "late", "green", NOON + timedelta(hours=31))
    buy(production, "late", 1, NOON + timedelta(hours=32))
    check(experiment, NOON + 2 * DAY)
    arguments = {"key": "e", "environment": production, "actor": ACTOR, "at": NOON + 2 * DAY}
    stop_experiment(**arguments, stopped_at=NOON + timedelta(hours=30))
    experiment.refresh_from_db()
    check(experiment, NOON + 3 * DAY)

    assert check_sums(experiment, NOON + 3 * DAY) == []


def test_refresh__series_of_another_version__is_computed_again(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    state = AggregateState.objects.get()
    assert state.series is not None
    state.series = {name: value for name, value in state.series.items() if name in ("mark", "ahead", "caps")}
    state.mark = state.mark.replace("5 ", "3 ", 1)
    state.save()
    DailyChange.objects.update(y=7)
    check(experiment, NOON + 2 * DAY)
