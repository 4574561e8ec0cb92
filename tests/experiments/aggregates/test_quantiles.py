"""Quantiles over events with users as clusters, compared with a plain computation from all events."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from random import Random
from statistics import NormalDist
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from events.models import Event
from events.removal.erasure import erase_user
from experiments.aggregates.mature_sums import Maturity
from experiments.aggregates.quantiles import Quantiles, compute_quantiles, read_quantiles, update_quantiles
from experiments.aggregates.refresh import refresh
from experiments.exposures.recording import assign
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment
from experiments.stats.types import Quantile
from tests.conftest import NOON
from tests.experiments.aggregates.by_hand import amounts_of, counted_at, counting_events, exposed, is_of
from tests.experiments.aggregates.histories import History, make_experiment
from tests.factories import EventFactory, ExperimentFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
Z = NormalDist().inv_cdf(0.975)
SECONDS = Quantity("load", "seconds")


def quantile_by_hand(values_of_users: list[list[float]], p: float) -> Quantile:
    values = sorted(value for values in values_of_users for value in values)
    number, users = len(values), len(values_of_users)
    if not values:
        return Quantile(n=users)

    def at(share: float | Fraction) -> float:
        return values[min(max(math.ceil(share * number), 1), number) - 1]

    middle = at(Fraction(str(p)))
    errors = [sum(value <= middle for value in values) - p * len(values) for values in values_of_users]
    if users < 2:
        return Quantile(users, number, middle)
    sigma = math.sqrt(sum(error**2 for error in errors) * users / (users - 1)) / number
    return Quantile(users, number, middle, ((at(p + Z * sigma) - at(p - Z * sigma)) / (2 * Z)) ** 2)


def quantiles_by_hand(experiment: Experiment, at: datetime, phases: list[int], maturity: Maturity) -> Quantiles:
    end, events = min(filter(None, (at, experiment.stopped_at))), list(Event.objects.all())
    quantiles: dict[int, dict[str, Quantile]] = {}
    for index, definition in enumerate(definitions_of(experiment)):
        if definition.quantile is None:
            continue
        by_variant: dict[str, list[list[float]]] = {}
        for exposure in exposed(experiment):
            base = exposure.exposed_at.replace(microsecond=0)
            is_mature = maturity == "all" or definition.span is None or base + definition.span <= end
            if exposure.phase in phases and is_mature:
                of_user = counting_events(events, exposure, experiment)
                until = definition.span or timedelta.max
                window = [event for event in of_user if definition.delay <= counted_at(event) - base < until]
                named = [event for event in window if is_of(definition.quantity, event)]
                by_variant.setdefault(exposure.variant, []).append(amounts_of(definition.quantity, named))
        if by_variant:
            quantiles[index] = {key: quantile_by_hand(users, definition.quantile) for key, users in by_variant.items()}
    return quantiles


def near(quantiles: Quantiles) -> Any:
    return {
        (index, key): pytest.approx((figures.n, figures.events, figures.value, figures.squared_error), rel=1e-9)
        for index, by_variant in quantiles.items()
        for key, figures in by_variant.items()
    }


def plain(quantiles: Quantiles) -> dict[tuple[int, str], Any]:
    return {
        (index, key): (figures.n, figures.events, figures.value, figures.squared_error)
        for index, by_variant in quantiles.items()
        for key, figures in by_variant.items()
    }


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
            update_quantiles(history.experiment, at, [phases], maturity)
            read = read_quantiles(history.experiment, at, phases, maturity)
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
    """With one value a user, the error is that of the order statistics at n p +- z sqrt(n p (1 - p))."""
    experiment = make_experiment(production, Definition("load", 1, "quantile", SECONDS, quantile=0.5))
    for number in range(1, 101):
        assign(experiment.pk, f"u{number}", "green", NOON)
        load(f"u{number}", float(number))
    refresh(experiment, NOON)

    [quantile] = compute_quantiles(experiment, NOON, [1])[0].values()
    # 50 +- 1.96 * 5 * sqrt(100 / 99), as ranks rounded up: 41 and 60.
    assert quantile == Quantile(100, 100, 50, pytest.approx(((60 - 41) / (2 * Z)) ** 2))


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


def test_read_quantiles__nothing_new__are_not_computed_twice(experiment: Experiment) -> None:
    at = NOON + 3 * DAY
    update_quantiles(experiment, at, [[1]])
    first = read_quantiles(experiment, at, [1])
    with CaptureQueriesContext(connection) as captured:
        update_quantiles(experiment, at + DAY, [[1]])
        assert read_quantiles(experiment, at + DAY, [1]) == first
    assert first[0]["green"].n == 40
    assert not [query for query in captured if Event._meta.db_table in query["sql"]]


@pytest.mark.parametrize("change", ["event", "user", "mature", "erased"])
def test_read_quantiles__something_new__are_computed_again(experiment: Experiment, change: str) -> None:
    at = NOON + (DAY if change == "mature" else 3 * DAY)
    update_quantiles(experiment, at, [[1]])
    if change == "event":
        load("u1", 1000)
    elif change == "user":
        assign(experiment.pk, "new", "green", NOON)
    elif change == "erased":
        erase_user("u3", experiment.environment)
    at += 3 * DAY if change == "mature" else timedelta(0)
    refresh(experiment, at)

    assert AggregateState.objects.get().quantiles is None or change == "mature"
    update_quantiles(experiment, at, [[1]])
    assert plain(read_quantiles(experiment, at, [1])) == near(quantiles_by_hand(experiment, at, [1], "mature"))


def test_read_quantiles__frozen__are_those_of_the_freeze(experiment: Experiment) -> None:
    Experiment.objects.update(status="stopped", stopped_at=NOON + 3 * DAY)
    stopped = Experiment.objects.get()
    refresh(stopped, NOON + 5 * DAY)
    update_quantiles(stopped, NOON + 5 * DAY, [[1]])
    before = read_quantiles(stopped, NOON + 5 * DAY, [1])
    Experiment.objects.update(frozen_at=NOON + 5 * DAY)
    Event.objects.all().delete()
    frozen = Experiment.objects.get()
    refresh(frozen, NOON + 90 * DAY)

    assert read_quantiles(frozen, NOON + 90 * DAY, [1]) == before != {}
    assert read_quantiles(frozen, NOON + 90 * DAY, [1], "all") == {}


def test_read_quantiles__no_such_metric__takes_no_statement(
    production: Environment, django_assert_num_queries: Any
) -> None:
    experiment = ExperimentFactory(running=True)
    with django_assert_num_queries(0):
        assert read_quantiles(experiment, NOON, [1]) == {}
        update_quantiles(experiment, NOON, [[1]])
