"""The sums over mature users at a moment, compared with a plain computation from all events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from config.database.planning import planned
from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity, definitions_of
from experiments.models import Experiment, Exposure, UserValue
from experiments.results.maturity import MatureSums, read_mature
from experiments.results.refresh import refresh
from experiments.results.sums import (
    EXPOSURE,
    ExactSums,
    MetricSums,
    SumsAsOf,
    read_caps,
    read_phases,
    step_of,
)
from experiments.results.values import stored_values
from tests.conftest import NOON
from tests.experiments.results.by_hand import exposed, last_moment, sums_by_hand
from tests.experiments.results.histories import DEFINITIONS, NUMBERS, History, make_experiment
from tests.factories import EventFactory, ExperimentFactory
from tests.plans import analyze
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RETURNED = Definition("returned", 1, "retention", Quantity("buy"), delay=DAY, window=DAY)


def read(experiment: Experiment, at: datetime, **options: Any) -> MatureSums:
    return read_mature(experiment, at, read_caps(experiment), **options)


def is_mature(experiment: Experiment, span: timedelta | None, at: datetime, exposure: Exposure) -> bool:
    end = min(at, last_moment(experiment))
    return span is None or exposure.exposed_at.replace(microsecond=0) + span <= end


def mature_by_hand(experiment: Experiment, at: datetime) -> dict[tuple[int, int, str], ExactSums]:
    """Return the sums over the users who count for each metric, by metric index, phase and variant."""
    definitions = definitions_of(experiment)
    spans = {definition.span for definition in definitions}
    pooled: dict[tuple[int, int, str], ExactSums] = {}
    for span in spans:
        mature = partial(is_mature, experiment, span, at)
        for (index, variant, phase, _), totals in sums_by_hand(experiment, mature).items():
            metric = (step_of(index) or (index, 0))[0]
            if (definitions[metric].span if metric != EXPOSURE else None) == span:
                key = index, phase, variant
                pooled[key] = pooled.get(key, ExactSums()) + totals
    return pooled


def by_key(by_phase: Mapping[int, MetricSums]) -> dict[tuple[int, int, str], ExactSums]:
    return {
        (index, phase, variant): totals
        for phase, by_metric in by_phase.items()
        for index, by_variant in by_metric.items()
        for variant, totals in by_variant.items()
    }


def near(sums: Mapping[Any, ExactSums]) -> dict[Any, list[str]]:
    figures = {key: [f"{float(value) + 0.0:.9e}" for value in totals.values()] for key, totals in sums.items()}
    return {key: values for key, values in figures.items() if any(map(float, values))}


def check(experiment: Experiment, at: datetime) -> None:
    refresh(experiment, at)
    reading = read(experiment, at)
    assert near(by_key(reading.sums.by_phase)) == near(mature_by_hand(experiment, at))
    for index, definition in enumerate(definitions_of(experiment)):
        users = Counter(
            (exposure.phase, exposure.variant)
            for exposure in exposed(experiment)
            if is_mature(experiment, definition.span, at, exposure)
        )
        counted = {
            (phase, variant): number
            for phase in reading.everybody
            for variant, number in reading.users_of(index, phase).items()
            if number
        }
        assert counted == users


def check_random_history(production: Environment, chance: Random, steps: int) -> None:
    history = History(make_experiment(production, *chance.choice([DEFINITIONS, NUMBERS])), chance)
    for _ in range(steps):
        history.happen()
        if chance.random() < 0.3:
            check(history.experiment, history.moment(earliest=0) + chance.choice([0, 1, 3]) * DAY)
    check(history.experiment, NOON + 30 * DAY)


@histories(10)
@given(chance=st.randoms(use_true_random=False))
def test_read_mature__any_history__is_what_computing_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        check_random_history(production, chance, steps=20)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with retention on the day after the exposure, and three users, of whom one returned."""
    experiment = make_experiment(production, RETURNED, Definition("bought", 1, "conversion", Quantity("buy")))
    for user, hours in (("a", 0), ("b", 1.5), ("c", 30)):
        assign(experiment.pk, user, "green", NOON + hours * HOUR)
    EventFactory(user_id="a", name="buy", timestamp=NOON + 25 * HOUR)
    refresh(experiment, NOON)
    return experiment


def returned(reading: MatureSums) -> tuple[int, int]:
    """Return the users in green who count for the retention, and those who returned."""
    sums = reading.sums.by_phase[1].get(0, {}).get("green", ExactSums())
    return reading.users_of(0, 1)["green"], sums.positive


@pytest.mark.parametrize(
    ("hours", "counted"),
    [(47.99, (0, 0)), (48, (1, 1)), (49.49, (1, 1)), (49.5, (2, 1)), (77.99, (2, 1)), (78, (3, 1)), (2000, (3, 1))],
)
def test_read_mature__users_mature_by_the_clock_alone__count_from_that_second_on(
    experiment: Experiment, hours: float, counted: tuple[int, int]
) -> None:
    reading = read(experiment, NOON + hours * HOUR)

    assert returned(reading) == counted
    assert reading.users_of(1, 1) == {"green": 3}


def test_read_mature__everybody__counts_all_and_still_tells_who_is_mature(experiment: Experiment) -> None:
    reading = read(experiment, NOON + 48 * HOUR, maturity="all")

    assert (reading.maturity, returned(reading)) == ("all", (3, 1))
    assert reading.mature_users(0, 1) == {"green": 1}
    assert reading.sums.by_phase == read_phases(experiment)


def test_half_mature_at__is_on_the_day_of_the_middle_one_and_while_users_wait(experiment: Experiment) -> None:
    exposures = sorted(exposure.exposed_at for exposure in Exposure.objects.all())
    for hours, waiting in ((30, exposures), (60, exposures[2:])):
        half = read(experiment, NOON + hours * HOUR).half_mature_at(2 * DAY, [1], "green")
        assert half.date() == (waiting[(len(waiting) + 1) // 2 - 1] + 2 * DAY).date()
        assert NOON + hours * HOUR < half <= NOON + hours * HOUR + 2 * DAY


def test_half_mature_at__of_a_short_window__is_between_the_ends_of_the_open_windows() -> None:
    on_day = {(1, "green", (NOON - days * DAY).date()): users for days, users in ((0, 10), (1, 70))}
    reading = MatureSums(NOON, NOON, "mature", SumsAsOf({}, {}), {}, [], {2 * HOUR: {1: {"green": 76}}}, on_day)
    # Four users wait since 10:00 or later. The middle one came at 10:45.
    assert reading.half_mature_at(2 * HOUR, [1], "green") == NOON + 0.75 * HOUR


def test_waiting__after_the_stop__are_cut_off(experiment: Experiment) -> None:
    Experiment.objects.update(status="stopped", stopped_at=NOON + 49 * HOUR)
    stopped = Experiment.objects.get()
    refresh(stopped, NOON + 90 * DAY)
    reading = read(stopped, NOON + 90 * DAY)

    assert returned(reading) == (1, 1)


def test_read_mature__frozen_and_events_gone__stays_as_it_froze(experiment: Experiment) -> None:
    Experiment.objects.update(status="stopped", stopped_at=NOON + 49 * HOUR, frozen_at=NOON + 80 * HOUR)
    frozen = Experiment.objects.get()
    before = read(frozen, NOON + 80 * HOUR)
    Event.objects.all().delete()
    refresh(frozen, NOON + 90 * DAY)

    assert read(frozen, NOON + 90 * DAY) == before


def test_read_mature__any_number_of_metrics__takes_three_statements_and_one_for_each_span(
    production: Environment, django_assert_num_queries: Any
) -> None:
    experiment = make_experiment(production)
    assign(experiment.pk, "u", "green", NOON)
    refresh(experiment, NOON)
    caps = read_caps(experiment)
    spans = {definition.span for definition in definitions_of(experiment)} - {None}

    with django_assert_num_queries(3 + len(spans)):
        read_mature(experiment, NOON + HOUR, caps)


def test_read_mature__no_metric_with_a_window__takes_one_statement(
    production: Environment, django_assert_num_queries: Any
) -> None:
    experiment = ExperimentFactory(running=True)
    refresh(experiment, NOON)

    with django_assert_num_queries(1):
        assert read_mature(experiment, NOON, {}).sums.mature == {}


@pytest.mark.one_server("the plan of PostgreSQL is read")
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the planner of PostgreSQL is asked")
def test_read_mature__last_day__is_found_by_the_index(experiment: Experiment) -> None:
    place = {"state": experiment.result_state, "metric": EXPOSURE, "variant_number": 1, "phase": 1}
    UserValue.objects.bulk_create(
        UserValue(**place, user_id=f"u{number}", exposed_at=NOON, day=NOON.date() + timedelta(days=number % 100))
        for number in range(1000)
    )
    analyze(UserValue)
    of_day = stored_values(experiment).filter(day=NOON.date(), metric=EXPOSURE, exposed_at__lt=NOON + HOUR)
    with planned(enable_seqscan="off", enable_bitmapscan="off"):
        assert "exposed_user_by_day" in of_day.explain()
