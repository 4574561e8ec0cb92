"""Quantiles over events with users as clusters, compared with a plain computation from all events."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import Experiment, Exposure, ResultState
from experiments.models.exposure import Origin
from experiments.results import quantiles as module
from experiments.results.quantiles import QuantileReader, Quantiles, compute_quantiles, read_quantiles
from experiments.results.refresh import refresh
from experiments.stats.types import Quantile
from tests.conftest import NOON
from tests.experiments.results.histories import History, make_experiment
from tests.experiments.results.quantiles_by_hand import near, plain, quantiles_by_hand, read_and_store
from tests.factories import EventFactory, ExperimentFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
SECONDS = Quantity("load", "seconds")


@pytest.fixture(autouse=True, params=["in memory", "counted by the database"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test holds for values that the service reads, and for those that the database counts."""
    if request.param != "in memory":
        monkeypatch.setattr(module, "MAX_IN_MEMORY", 0)


@histories(15)
@given(chance=st.randoms(use_true_random=False))
def test_quantiles__any_history__are_what_computing_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        history = History(make_experiment(production, *QUANTILES), chance)
        for _ in range(40):
            history.happen()
        for _ in range(3):
            at = NOON + chance.randrange(12 * 24) * timedelta(hours=1)
            phases, maturity = chance.choice([[1], [2, 3], [1, 2, 3]]), chance.choice(["mature", "all"])
            refresh(history.experiment, at)
            read = read_and_store(history.experiment, at, phases, maturity)
            assert plain(read) == near(quantiles_by_hand(history.experiment, at, phases, maturity))


QUANTILES = (
    Definition("median", 1, "quantile", Quantity("look", "100"), quantile=0.5),
    Definition("price", 1, "quantile", Quantity("buy", "revenue", "EUR"), window=3 * DAY, quantile=0.9),
    Definition(
        "paid",
        1,
        "quantile",
        Quantity("buy", "revenue", "", (Condition("revenue", "exists"),)),
        delay=DAY,
        quantile=0.25,
    ),
    Definition("bought", 1, "conversion", Quantity("buy")),
)


def load(user: str, *seconds: float, at: datetime = NOON) -> None:
    for number in seconds:
        EventFactory(user_id=user, name="load", timestamp=at, properties={"seconds": number})


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with the median of load times, and 40 users in green with one to three of them."""
    experiment = make_experiment(production, Definition("load", 1, "quantile", SECONDS, window=2 * DAY, quantile=0.5))
    for number in range(40):
        assign(experiment.pk, f"u{number}", "green", NOON)
        load(f"u{number}", *(1 + (number * 7 + at) % 40 for at in range(1 + number % 3)))
    refresh(experiment, NOON)
    return experiment


def test_quantiles__one_event_a_user__have_the_error_of_independent_values(production: Environment) -> None:
    """With one value a user, the ends are 100 z sqrt(p (1 - p) / 99) away from the quantile."""
    experiment = make_experiment(production, Definition("load", 1, "quantile", SECONDS, quantile=0.5))
    for number in range(1, 101):
        assign(experiment.pk, f"u{number}", "green", NOON)
        load(f"u{number}", float(number))
    refresh(experiment, NOON)

    [quantile] = compute_quantiles(experiment, NOON, [1])[0].values()
    assert quantile == Quantile(100, 100, 50.5, pytest.approx(100 * 100 * 0.25 / 99))


@histories(10)
@given(seed=st.integers(0, 2**32))
def test_quantiles__ties_of_many_users__are_what_computing_by_hand_gives(production: Environment, seed: int) -> None:
    """Whole seconds: the same few values for most events, of users with none to several of them."""
    with undone():
        chance = Random(seed)
        shares = (0.1, 0.5, 0.8)
        experiment = make_experiment(
            production, *(Definition(f"q{p}", 1, "quantile", SECONDS, quantile=p) for p in shares)
        )
        greatest, most = chance.choice([1, 3, 40]), chance.choice([1, 3])
        exposures, events = [], []
        for number in range(240):
            user, variant = f"u{number}", chance.choice(["control", "green", "green"])
            exposures.append(
                Exposure(experiment=experiment, user_id=user, variant=variant, exposed_at=NOON, origin=Origin.ASSIGNED)
            )
            for _ in range(chance.randrange(most + 1)):
                seconds = {"seconds": min(int(chance.expovariate(0.4)), greatest)}
                events.append(NewEvent(new_id(), user, "load", NOON, NOON, seconds))
        Exposure.objects.bulk_create(exposures)
        record(events, production)
        refresh(experiment, NOON)

        computed = compute_quantiles(experiment, NOON, [1])
        assert plain(computed) == near(quantiles_by_hand(experiment, NOON, [1], "mature"))
        assert any(quantile.squared_error for quantile in computed[1].values())


def test_quantiles__alike_events_of_a_user__count_as_one_cluster(production: Environment) -> None:
    definition = Definition("load", 1, "quantile", SECONDS, quantile=0.5)
    experiment = make_experiment(production, definition)
    for number in range(100):
        assign(experiment.pk, f"u{number}", "green" if number % 2 else "control", NOON)
        load(f"u{number}", *[float(number // 2)] * (1 if number % 2 else 5))
    refresh(experiment, NOON)

    of_variant = compute_quantiles(experiment, NOON, [1])[0]
    assert (of_variant["control"].events, of_variant["green"].events) == (250, 50)
    assert of_variant["control"].squared_error == pytest.approx(of_variant["green"].squared_error, rel=0.2)


def test_quantile_reader__nothing_new__does_not_compute_twice(experiment: Experiment) -> None:
    at = NOON + 3 * DAY
    first = read_and_store(experiment, at)
    with CaptureQueriesContext(connection) as captured:
        assert read_and_store(experiment, at + DAY) == first
    assert first[0]["green"].n == 40
    assert not [query for query in captured if Event._meta.db_table in query["sql"]]


@pytest.mark.parametrize("change", ["event", "user", "mature", "erased"])
def test_quantile_reader__something_new__computes_again(experiment: Experiment, change: str) -> None:
    at = NOON + (DAY if change == "mature" else 3 * DAY)
    read_and_store(experiment, at)
    if change == "event":
        load("u1", 1000)
    elif change == "user":
        assign(experiment.pk, "new", "green", NOON)
    elif change == "erased":
        erase_user("u3", experiment.environment)
    at += 3 * DAY if change == "mature" else timedelta(0)
    refresh(experiment, at)

    by_hand = near(quantiles_by_hand(experiment, at, [1], "mature"))
    assert plain(read_and_store(experiment, at)) == by_hand
    assert plain(read_quantiles(experiment, at, [1])) == by_hand


def test_quantile_reader__computing__takes_no_lock(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Collection[Any]) -> None:
        raise AssertionError("locked")

    monkeypatch.setattr(module, "lock_results", refuse)
    reader = QuantileReader(experiment, NOON + 3 * DAY)
    assert reader.over([1])[0]["green"].n == 40
    with pytest.raises(AssertionError, match="locked"):
        reader.store()


@pytest.mark.parametrize("change", ["nothing", "event", "erased", "frozen"])
def test_quantile_reader__values_changed_while_it_computed__stores_nothing(experiment: Experiment, change: str) -> None:
    at = NOON + 3 * DAY
    reader = QuantileReader(experiment, at)
    reader.over([1])
    if change == "event":
        load("u1", 1000)
        refresh(experiment, at)
    elif change == "erased":
        erase_user("u3", experiment.environment)
    elif change == "frozen":
        Experiment.objects.update(status="stopped", stopped_at=at, frozen_at=at)
    reader.store()

    quantiles = ResultState.objects.get().quantiles
    assert quantiles is not None
    assert ("sets" in quantiles) == (change == "nothing")


@pytest.fixture
def frozen(experiment: Experiment) -> tuple[Experiment, Quantiles]:
    """The experiment, stopped and frozen with the quantiles of its mature users."""
    Experiment.objects.update(status="stopped", stopped_at=NOON + 3 * DAY)
    stopped = Experiment.objects.get()
    refresh(stopped, NOON + 5 * DAY)
    before = read_and_store(stopped, NOON + 5 * DAY)
    Experiment.objects.update(frozen_at=NOON + 5 * DAY)
    ResultState.objects.update(archive={})
    return Experiment.objects.get(), before


def test_read_quantiles__frozen__are_those_of_the_freeze(frozen: tuple[Experiment, Quantiles]) -> None:
    experiment, before = frozen
    Event.objects.all().delete()
    refresh(experiment, NOON + 90 * DAY)

    assert read_quantiles(experiment, NOON + 90 * DAY, [1]) == before != {}
    assert read_quantiles(experiment, NOON + 90 * DAY, [1], "all") == {}


def test_read_quantiles__frozen_and_a_user_erased__stay(frozen: tuple[Experiment, Quantiles]) -> None:
    """They cannot be computed without one user once the events may be gone, and say nothing of single users."""
    experiment, before = frozen
    erase_user("u3", experiment.environment)

    assert not Event.objects.filter(user_id="u3").exists()
    assert read_quantiles(experiment, NOON + 5 * DAY, [1]) == before


def test_quantile_reader__no_such_metric__takes_no_statement(
    production: Environment, django_assert_num_queries: Any
) -> None:
    experiment = ExperimentFactory(running=True)
    with django_assert_num_queries(0):
        assert read_and_store(experiment, NOON) == {}
