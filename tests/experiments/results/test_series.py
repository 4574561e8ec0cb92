"""Series: the sums as of the end of each day after random histories, compared with a plain computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from config.database import connections
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import DailySums, DayValue, Experiment, Exposure, ResultState, Status
from experiments.results import refresh, update
from experiments.results.archive import freeze
from experiments.results.check import check_sums
from experiments.results.refresh import bring_series_up_to_date, bring_up_to_date
from experiments.results.series import read_series
from experiments.results.sums import EXPOSURE, ExactSums, read_caps
from tests.conftest import ACTOR, NOON
from tests.experiments.results.histories import (
    DEFINITIONS,
    EUROS,
    FEW,
    NUMBERS,
    STEPS,
    History,
    make_experiment,
)
from tests.experiments.results.series_by_hand import Sums, by_label, near, series_by_hand
from tests.factories import EventFactory, ExperimentFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
POSITIVE = (Condition("revenue", "greaterThan", 0),)
CAPPED = (
    Definition("revenue", 1, "revenue", EUROS, cap_percentile=60),
    Definition("paid", 1, "revenue", replace(EUROS, where=POSITIVE), cap_percentile=70),
    Definition("often", 1, "count", Quantity("look"), delay=timedelta(hours=2), cap_percentile=80),
    Definition("mean", 1, "mean", EUROS),
)
"""Metrics with caps that move. The values of the first one may fall."""


@pytest.fixture(params=[0, 1e6], ids=["by user", "in one pass"])
def _plan_of_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the days of the users that have changed again, or those of all."""
    monkeypatch.setattr(update, "_EVENTS_A_USER", request.param)
    monkeypatch.setattr(update, "USERS_AT_ONCE", 2)


def series_of(experiment: Experiment, at: datetime) -> dict[date, Sums]:
    return {day: by_label(sums.by_phase, sums.mature) for day, sums in read_series(experiment, at)}


def check(experiment: Experiment, at: datetime) -> None:
    bring_series_up_to_date(experiment, at)
    assert near(series_of(experiment, at)) == near(series_by_hand(experiment, at, read_caps(experiment)))


def check_random_history(production: Environment, chance: Random, steps: int) -> None:
    ever = Definition("ever", 1, "funnel", STEPS[0], steps=STEPS)
    metrics = chance.choice([(*DEFINITIONS, ever), FEW, NUMBERS, CAPPED])
    history = History(make_experiment(production, *metrics), chance)
    for _ in range(steps):
        history.happen()
        if chance.random() < 0.2:
            bring_up_to_date(history.experiment, NOON)
        if chance.random() < 0.3:
            check(history.experiment, NOON + timedelta(hours=chance.randrange(24 * 12)))
        if chance.random() < 0.05:
            ResultState.objects.update(watermark="")  # as after a change of the metrics
    check(history.experiment, NOON + 30 * DAY)


@pytest.mark.usefixtures("_plan_of_statements")
@histories(6)
@given(chance=st.randoms(use_true_random=False))
def test_read_series__any_history__is_what_computing_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        check_random_history(production, chance, steps=20)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_plan_of_statements")
@pytest.mark.parametrize("seed", range(4))
def test_read_series__any_history_of_short_transactions__is_what_computing_by_hand_gives(
    production: Environment, seed: int
) -> None:
    check_random_history(production, Random(seed), steps=40)


def buy(user: str, at: datetime, **times: datetime) -> None:
    EventFactory(user_id=user, name="purchase", timestamp=at, **{"received_at": at, **times})


def conversions(experiment: Experiment, at: datetime) -> dict[int, tuple[int, int]]:
    """Return the users and the buyers in green as of the end of each finished day of January and February."""
    bring_series_up_to_date(experiment, at)
    ends = ((day.day, sums.by_phase[1]) for day, sums in read_series(experiment, at))
    return {
        day: (totals[EXPOSURE]["green"].users, totals.get(0, {}).get("green", ExactSums()).positive)
        for day, totals in ends
    }


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with a user in green on 31 January, and one on 2 February."""
    experiment: Experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    assign(experiment.pk, "v", "green", NOON + 2 * DAY)
    return experiment


def test_read_series__outcome_of_a_later_day__counts_from_that_day_on(experiment: Experiment) -> None:
    buy("u", NOON + DAY)

    assert conversions(experiment, NOON + 4 * DAY) == {31: (1, 0), 1: (1, 1), 2: (2, 1), 3: (2, 1)}


def test_read_series__unfinished_day__is_left_out(experiment: Experiment) -> None:
    assert conversions(experiment, NOON) == {}
    assert conversions(experiment, NOON + DAY) == {31: (1, 0)}


def test_read_series__event_before_the_exposure__does_not_count(experiment: Experiment) -> None:
    buy("v", NOON + DAY)

    assert conversions(experiment, NOON + 3 * DAY)[2] == (2, 0)


def test_read_series__events_imported_later__land_on_their_days(experiment: Experiment) -> None:
    before = conversions(experiment, NOON + 3 * DAY)
    buy("u", NOON + timedelta(hours=1), received_at=NOON + 3 * DAY)

    assert before == {31: (1, 0), 1: (1, 0), 2: (2, 0)}
    assert conversions(experiment, NOON + 3 * DAY) == {31: (1, 1), 1: (1, 1), 2: (2, 1)}


def test_read_series__timestamp_after_the_receipt__counts_at_the_receipt(experiment: Experiment) -> None:
    buy("u", NOON + 3 * DAY, received_at=NOON + DAY)

    assert conversions(experiment, NOON + 3 * DAY) == {31: (1, 0), 1: (1, 1), 2: (2, 1)}


def test_read_series__stopped__ends_before_the_day_of_the_stop(experiment: Experiment) -> None:
    buy("u", NOON + 2 * DAY)
    stop_experiment(
        key="e", environment=experiment.environment, actor=ACTOR, now=NOON + 9 * DAY, stopped_at=NOON + 2 * DAY
    )
    experiment.refresh_from_db()

    assert conversions(experiment, NOON + 9 * DAY) == {31: (1, 0), 1: (1, 0)}


def test_bring_up_to_date__nobody_has_asked_for_a_series__stores_no_values_of_days(experiment: Experiment) -> None:
    buy("u", NOON)
    bring_up_to_date(experiment, NOON + 3 * DAY)

    assert not DayValue.objects.exists()
    assert not DailySums.objects.exists()


@pytest.mark.django_db(transaction=True)  # what a transaction has written itself is always new to it
def test_bring_series_up_to_date__nothing_new__writes_nothing(experiment: Experiment) -> None:
    buy("u", NOON)
    conversions(experiment, NOON + 3 * DAY)
    with CaptureQueriesContext(connection) as queries:
        bring_series_up_to_date(experiment, NOON + 3 * DAY)

    assert all(query["sql"].startswith("SELECT") for query in queries)


def test_freeze__series_that_nobody_has_asked_for__is_there_after_the_events_are_gone(experiment: Experiment) -> None:
    buy("u", NOON + DAY)
    Experiment.objects.filter(pk=experiment.pk).update(status=Status.STOPPED, stopped_at=NOON + 4 * DAY)
    experiment.refresh_from_db()
    freeze(experiment, NOON + 40 * DAY)
    Event.objects.all().delete()
    experiment.refresh_from_db()

    assert conversions(experiment, NOON + 50 * DAY) == {31: (1, 0), 1: (1, 1), 2: (2, 1), 3: (2, 1)}


BOUGHT = Definition("bought", 1, "count", Quantity("buy"))
SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount"), cap_percentile=80)


def spend(environment: Environment, user: str, amount: float, at: datetime) -> None:
    record([NewEvent(new_id(), user, "buy", at, at, {"amount": amount})], environment)


@pytest.fixture
def spending(production: Environment, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment whose users were exposed at NOON and bought for 1 to 10 a day later, with a series of two days."""
    monkeypatch.setattr(update, "_EVENTS_A_USER", 0)  # so that changed users alone are computed again
    experiment = make_experiment(production, BOUGHT, SPENT)
    for amount, user in enumerate("abcdefghij", 1):
        assign(experiment.pk, user, "green", NOON)
        spend(production, user, amount, NOON + DAY)
    bring_series_up_to_date(experiment, NOON + 2 * DAY)
    return experiment


def events_of_today_and_late_ones(experiment: Experiment) -> None:
    for user, days in (("a", 2), ("b", 1), ("c", -1)):
        spend(experiment.environment, user, 1, NOON + days * DAY)


def late_and_new_exposures(experiment: Experiment) -> None:
    for user, days in (("late", 1), ("new", 2)):
        spend(experiment.environment, user, 3, NOON + timedelta(hours=36))
        assign(experiment.pk, user, "green", NOON + days * DAY)


def later_exposure(experiment: Experiment) -> None:
    moved = Exposure.objects.get(user_id="a")
    moved.exposed_at = NOON + 2 * DAY
    moved.save()


def cap_that_rises(experiment: Experiment) -> None:
    spend(experiment.environment, "a", 500, NOON + 2 * DAY)


def cap_that_falls(experiment: Experiment) -> None:
    for number in range(10):
        assign(experiment.pk, f"u{number}", "green", NOON + DAY)
        spend(experiment.environment, f"u{number}", 1, NOON + 2 * DAY)


def refund_of_the_most(experiment: Experiment) -> None:
    spend(experiment.environment, "j", -9.5, NOON + 2 * DAY)  # the most on the day before, and now less than any cap


def erasure(experiment: Experiment) -> None:
    erase_user("i", experiment.environment)


@pytest.mark.parametrize(
    "change",
    [
        events_of_today_and_late_ones,
        late_and_new_exposures,
        later_exposure,
        cap_that_rises,
        cap_that_falls,
        refund_of_the_most,
        erasure,
    ],
)
def test_bring_series_up_to_date__change__reaches_all_days_by_the_cap_in_force(
    spending: Experiment, change: Callable[[Experiment], None]
) -> None:
    change(spending)
    for days in (2, 3, 5):
        check(spending, NOON + days * DAY)
        assert check_sums(spending, NOON + days * DAY) == []


def test_bring_series_up_to_date__stop_dated_back__leaves_out_what_came_after_it(spending: Experiment) -> None:
    assign(spending.pk, "late", "green", NOON + timedelta(hours=31))
    spend(spending.environment, "late", 1, NOON + timedelta(hours=32))
    check(spending, NOON + 2 * DAY)
    arguments = {"key": "e", "environment": spending.environment, "actor": ACTOR, "now": NOON + 2 * DAY}
    stop_experiment(**arguments, stopped_at=NOON + timedelta(hours=30))
    spending.refresh_from_db()

    check(spending, NOON + 3 * DAY)
    assert check_sums(spending, NOON + 3 * DAY) == []


@pytest.mark.django_db(transaction=True)  # the limit lasts until the end of a transaction
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such limit")
def test_series__asked_for_in_a_request__may_take_as_long_as_results(
    production: Environment, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATABASE_LONG_TIMEOUT, limits = 600, []
    monkeypatch.setattr(connections._Process, "seconds", 7)

    def note_limit(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(cursor.fetchone()[0])

    monkeypatch.setattr(refresh, "_begin_series", note_limit)
    experiment = make_experiment(production, *NUMBERS)
    bring_series_up_to_date(experiment, NOON)
    assert limits == ["10min"]
