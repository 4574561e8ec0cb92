"""Adding new events to stored totals: each event once, whenever it is committed."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction

from config.database.commit_order import take_mark
from config.models import Environment
from events.models import Event
from events.recording.ingest import NewEvent, new_id, record
from experiments.aggregates import refresh as refreshing
from experiments.aggregates import update
from experiments.aggregates.checking import check_sums
from experiments.aggregates.marks import plain_mark
from experiments.aggregates.refresh import refresh
from experiments.aggregates.update import AggregateUpdater
from experiments.aggregates.variant_sums import read_sums
from experiments.design.checks import MOST_METRICS
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import AggregateState, Experiment, UserTotal
from tests.config.database.test_commit_order_between import reach, restore_ahead
from tests.conftest import NOON
from tests.experiments.aggregates.histories import ADDITIVE, MIXED, History, make_experiment
from tests.experiments.aggregates.test_refresh import check, refresh_from_scratch, stored_sums
from tests.threads import SECONDS, Gate, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")

BOUGHT = Definition("bought", 1, "count", Quantity("buy"))
SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount"))
KINDS = Definition("kinds", 1, "distinct", Quantity("look", "kind"))


@pytest.fixture
def production(threads: Threads) -> Environment:
    return Environment.objects.get(key="production")


def with_users(production: Environment, *definitions: Definition) -> Experiment:
    """A running experiment with these metrics and two users in green, refreshed."""
    experiment = make_experiment(production, *definitions)
    for user in ("u", "v"):
        assign(experiment.pk, user, "green", NOON)
    refresh(experiment, NOON)
    return experiment


def buy(production: Environment, *amounts: float, user: str = "u", name: str = "buy", at: datetime = NOON) -> None:
    events = [NewEvent(new_id(), user, name, at, at, {"amount": amount, "kind": amount}) for amount in amounts]
    record(events, production)


def figures(experiment: Experiment, user: str = "u") -> Any:
    refresh(experiment, NOON)
    return UserTotal.objects.get(experiment=experiment, user_id=user).figures


def note_computed_again(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which the users are added who are computed again, in one list for each time."""
    again, write_totals = [], update.write_totals
    monkeypatch.setattr(
        update, "write_totals", lambda *arguments: (again.append(arguments[1]), write_totals(*arguments))
    )
    monkeypatch.setattr(refreshing, "is_quicker_in_one_pass", lambda *_: False)
    return again


def forbid_computing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("A user was computed again.")

    monkeypatch.setattr(update, "write_totals", fail)


def test_refresh__new_events_of_metrics_that_add_up__computes_no_user_again(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, *ADDITIVE)
    forbid_computing_again(monkeypatch)
    for _ in range(3):
        buy(production, 1, 2)
        refresh(experiment, NOON)
        check(experiment)
    buy(production, 1, user="unexposed")
    refresh(experiment, NOON)

    assert check_sums(experiment, NOON) == []


def test_refresh__new_event_of_a_metric_that_does_not_add_up__computes_its_user_again(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_users(production, BOUGHT, KINDS)
    again = note_computed_again(monkeypatch)
    buy(production, 1)
    buy(production, 1, user="v")
    buy(production, 1, 2, user="v", name="look")
    refresh(experiment, NOON)

    assert again == [["v"]]
    check(experiment)


@pytest.mark.parametrize(
    "amounts",
    [
        [[0.1], [0.2]],
        [[1e17], [1], [-1e17]],
        [[19.99, 5.01], [-25]],
        [[-5], [12], [-7]],
        [[1e100], [1e100], [-1e100], [3]],
        [[2e-100], [1]],
        [[0.1]] * 30,
    ],
)
def test_refresh__amounts_one_after_the_other__add_up_as_all_at_once(
    production: Environment, amounts: list[list[float]]
) -> None:
    experiment = with_users(production, SPENT)
    for some in amounts:
        buy(production, *some)
        refresh(experiment, NOON)
    stored = figures(experiment)
    refresh_from_scratch(experiment)

    assert stored == pytest.approx(figures(experiment), rel=1e-14, abs=0)


def test_refresh__value_before_the_exposure_that_shrinks_above_the_cap__computes_its_user_again(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sum shows it, because the capped value stays the same."""
    experiment = with_users(production, replace(SPENT, cap_value=0.5))
    before = NOON - timedelta(hours=1)
    buy(production, 1e17, 3, at=before)
    refresh(experiment, NOON)
    again = note_computed_again(monkeypatch)
    buy(production, 3, user="v", at=before)
    buy(production, -99_999_999_999_999_000, at=before)
    state = refresh(experiment, NOON)

    assert again == [["u"]]
    assert stored_sums(experiment) == AggregateUpdater(state, experiment).sums_of_totals()


def test_refresh__new_events_of_one_metric__looks_for_no_cap_of_another(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, looked = replace(SPENT, cap_percentile=50), Definition("looked", 1, "count", Quantity("look"))
    experiment, looked_for = with_users(production, spent, looked), []
    move_cap = AggregateUpdater._move_cap
    monkeypatch.setattr(
        AggregateUpdater, "_move_cap", lambda *arguments: (looked_for.append(arguments[1]), move_cap(*arguments))[1]
    )
    buy(production, 1, 2, name="look")
    refresh(experiment, NOON)
    assert looked_for == []
    buy(production, 5)
    buy(production, 7, user="v")

    assert refresh(experiment, NOON).caps == {"0": 5}
    assert looked_for == [0]
    check(experiment)


@pytest.mark.parametrize(
    ("new", "cap"),
    [({"u": 1}, 10), ({"u": 1, "v": 5}, 11), ({"u": 90, "v": 90}, 100), ({"w": 1, "x": 2}, 2), ({"w": -7, "x": -8}, 0)],
)
def test_refresh__percentile_that_moves__counts_all_users_by_it(
    production: Environment, new: dict[str, float], cap: float
) -> None:
    experiment = with_users(production, replace(SPENT, cap_percentile=50))
    for user in ("u", "v", "w", "x"):
        assign(experiment.pk, user, "green", NOON)
    buy(production, 10)
    buy(production, 10, user="v")
    buy(production, 30, user="v", at=NOON - timedelta(hours=1))
    refresh(experiment, NOON)
    for user, amount in new.items():
        buy(production, amount, user=user)
    state = refresh(experiment, NOON)

    assert state.caps == ({"0": cap} if cap else {})
    assert stored_sums(experiment) == AggregateUpdater(state, experiment).sums_of_totals()
    check(experiment)


@pytest.mark.parametrize("seed", range(6))
def test_refresh__after_every_step_of_a_history__has_the_sums_of_its_totals_to_the_last_digit(
    production: Environment, seed: int
) -> None:
    chance = Random(seed)
    experiment = make_experiment(production, *ADDITIVE)
    history = History(experiment, chance)
    for _ in range(30):
        chance.choice([history.record, history.record, history.assign, history.report, history.erase])()
        state = refresh(experiment, NOON)
        assert stored_sums(experiment) == AggregateUpdater(state, experiment).sums_of_totals()


@pytest.mark.parametrize("seed", range(12))
def test_refresh__after_every_step_of_a_history__is_what_counting_by_hand_gives(
    production: Environment, seed: int
) -> None:
    chance = Random(seed)
    experiment = make_experiment(production, *chance.choice([ADDITIVE, MIXED]))
    history = History(experiment, chance)
    for _ in range(40):
        history.happen()
        refresh(experiment, NOON)
        check(experiment)
    assert check_sums(experiment, NOON) == []


def test_refresh__beside_writes_and_erasures__adds_each_event_once(production: Environment, threads: Threads) -> None:
    experiment = make_experiment(production, *ADDITIVE)
    writing: list[Future[None]] = [threads.start(write, experiment, seed) for seed in range(4)]

    def refresh_meanwhile() -> None:
        while not all(writer.done() for writer in writing):
            refresh(experiment, NOON)

    reading: list[Future[None]] = [threads.start(refresh_meanwhile) for _ in range(2)]
    for working in (*writing, *reading):
        working.result(SECONDS)

    assert check_sums(experiment, NOON) == []
    check(experiment)
    assert UserTotal.objects.exists()


def write(experiment: Experiment, seed: int) -> None:
    history = History(experiment, Random(seed))
    for _ in range(30):
        history.chance.choice([history.record, history.record, history.report, history.assign, history.erase])()


@on_postgresql
@pytest.mark.parametrize("is_computed_again", [True, False])
def test_refresh__event_committed_after_the_mark__is_added_by_the_next_one(
    production: Environment, threads: Threads, monkeypatch: pytest.MonkeyPatch, is_computed_again: bool
) -> None:
    experiment, gate = with_users(production, BOUGHT, KINDS), Gate()

    def take_and_wait(table: str) -> str:
        mark = take_mark(table)
        gate.pass_through()
        return mark

    buy(production, 1)
    if is_computed_again:
        buy(production, 1, name="look")
        monkeypatch.setattr(refreshing, "is_quicker_in_one_pass", lambda *_: False)
    monkeypatch.setattr(refreshing, "take_mark", take_and_wait)
    working: Future[Any] = threads.start(refresh, experiment, NOON)
    gate.wait_for_arrival()
    buy(production, 1)
    gate.open()
    working.result(SECONDS)
    assert UserTotal.objects.get(user_id="u").figures[0] == 1

    assert figures(experiment)[0] == 2
    check(experiment)


@on_postgresql
def test_refresh__events_of_transactions_under_way_at_the_mark__are_added_once(
    production: Environment, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, gate = with_users(production, BOUGHT), Gate()

    def record_and_wait() -> None:
        with transaction.atomic():
            buy(production, 1, 2, name="buy")
            gate.pass_through()

    forbid_computing_again(monkeypatch)
    recording: Future[None] = threads.start(record_and_wait)
    gate.wait_for_arrival()
    threads.start(refresh, experiment, NOON + timedelta(minutes=2)).result(SECONDS)
    assert UserTotal.objects.get(user_id="u").figures[0] == 0
    gate.open()
    recording.result(SECONDS)

    assert [figures(experiment)[0] for _ in range(2)] == [2, 2]


def test_refresh__events_of_its_own_transaction__are_counted_once(production: Environment) -> None:
    experiment = with_users(production, BOUGHT)
    with transaction.atomic():
        for number in range(1, 4):
            buy(production, 1)
            assert figures(experiment)[0] == number
    buy(production, 1)

    assert [figures(experiment)[0] for _ in range(2)] == [4, 4]
    check(experiment)


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_refresh__transactions_that_reach_the_numbers_of_restored_events__count_these_once(
    production: Environment,
) -> None:
    experiment = with_users(production, BOUGHT)
    buy(production, 1, 2)
    ahead = restore_ahead(Event.objects.all())
    refresh_from_scratch(experiment)
    assert plain_mark(AggregateState.objects.get().mark).split(" ")[3:] == [str(ahead)]
    reach(ahead - 1)
    for _ in range(4):
        buy(production, 1)
        refresh(experiment, NOON)

    assert Event.objects.latest("arrival").arrival > ahead + 1
    assert figures(experiment)[0] == 6
    check(experiment)


def test_refresh__the_maximum_number_of_metrics__adds_to_each(production: Environment) -> None:
    numbers = range(MOST_METRICS)
    price = [Definition(f"m{at}", 1, "ratio", Quantity("buy", f"p{at}"), Quantity("buy")) for at in numbers]
    experiment = with_users(production, *price)
    for _ in range(2):
        record([NewEvent(new_id(), "u", "buy", NOON, NOON, {f"p{at}": at + 0.5 for at in numbers})], production)
        refresh(experiment, NOON)

    check(experiment)
    assert read_sums(experiment)[MOST_METRICS - 1]["green"].y == 2 * MOST_METRICS - 1
