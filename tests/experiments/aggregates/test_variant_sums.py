"""What is read of totals: by variant, by day, by user, and of those whose windows have passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from functools import reduce
from operator import add
from random import Random
from typing import Any

import pytest

from config.models import Environment
from experiments.aggregates.refresh import refresh
from experiments.aggregates.variant_sums import (
    VariantTotals,
    count_mature,
    pool,
    read_caps,
    read_daily,
    read_phases,
    read_sums,
    read_users,
)
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.experiments.aggregates.by_hand import Sums, exposed, sums_by_hand, totals_by_hand
from tests.experiments.aggregates.histories import DEFINITIONS, History, make_experiment
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """Stopped, after a history, and folded."""
    experiment = make_experiment(production)
    history = History(experiment, Random(7))
    for _ in range(40):
        history.chance.choice([history.record, history.report, history.assign, history.move])()
    for euros in (10, 20, 30):  # by users of whom chance knows nothing
        assign(experiment.pk, f"buyer {euros}", "green", NOON)
        at, bought = NOON + timedelta(hours=3), {"revenue": euros, "currency": "EUR"}
        EventFactory(user_id=f"buyer {euros}", name="buy", timestamp=at, received_at=at, properties=bought)
    who = {"key": "e", "environment": production, "actor": ACTOR, "at": NOON}
    stopped = stop_experiment(**who, stopped_at=NOON + timedelta(hours=100))
    refresh(stopped, NOON)
    return stopped


def test_read_sums__after_a_history__are_those_of_all_days(experiment: Experiment) -> None:
    by_variant: dict[tuple[int, str], list[VariantTotals]] = {}
    for (place, variant, *_), sums in sums_by_hand(experiment).items():
        by_variant.setdefault((place, variant), []).append(sums)

    read = {(place, variant): sums for place, found in read_sums(experiment).items() for variant, sums in found.items()}
    assert {key: figures(sums) for key, sums in read.items() if sums != VariantTotals()} == {
        key: near(reduce(add, each)) for key, each in by_variant.items()
    }
    assert len(read) > len(DEFINITIONS)


def test_read_daily__after_a_history__are_those_of_each_day_in_order(experiment: Experiment) -> None:
    read = {
        (place, variant, day): sums
        for place, variants in read_daily(experiment).items()
        for variant, days in variants.items()
        for day, sums in days.items()
    }
    expected = {key: near(sums) for key, sums in pooled(sums_by_hand(experiment)).items()}
    assert {key: figures(sums) for key, sums in read.items() if sums != VariantTotals()} == expected
    assert all(list(days) == sorted(days) for found in read_daily(experiment).values() for days in found.values())


def test_read_phases__after_a_history__are_those_of_all_days_of_each(experiment: Experiment) -> None:
    by_phase: dict[tuple[int, int, str], list[VariantTotals]] = {}
    for (place, variant, phase, _), sums in sums_by_hand(experiment).items():
        by_phase.setdefault((phase, place, variant), []).append(sums)

    read = {
        (phase, place, variant): sums
        for phase, totals in read_phases(experiment).items()
        for place, found in totals.items()
        for variant, sums in found.items()
    }
    assert {key: figures(sums) for key, sums in read.items() if sums != VariantTotals()} == {
        key: near(reduce(add, each)) for key, each in by_phase.items()
    }
    assert {phase for phase, *_ in read} == {1, 2, 3}


@pytest.mark.parametrize("phases", [[1], [2, 3], [7], []])
def test_pool__some_phases__are_the_sums_of_their_days(experiment: Experiment, phases: list[int]) -> None:
    chosen = {key: sums for key, sums in sums_by_hand(experiment).items() if key[2] in phases}
    by_variant: dict[tuple[int, str], list[VariantTotals]] = {}
    for (place, variant, *_), sums in chosen.items():
        by_variant.setdefault((place, variant), []).append(sums)
    expected = {key: near(reduce(add, each)) for key, each in by_variant.items()}

    found = pool(read_phases(experiment), phases)
    assert _by_key((place, key, sums) for place, of in found.items() for key, sums in of.items()) == expected
    daily = read_daily(experiment, phases)
    added = ((place, key, reduce(add, of.values())) for place, each in daily.items() for key, of in each.items())
    assert _by_key(added) == expected


def _by_key(found: Iterable[tuple[int, str, VariantTotals]]) -> dict[tuple[int, str], list[float]]:
    return {(place, variant): figures(sums) for place, variant, sums in found if sums != VariantTotals()}


def pooled(sums: Sums) -> dict[tuple[int, str, date], VariantTotals]:
    """Those of all phases, by the day."""
    found: dict[tuple[int, str, date], VariantTotals] = {}
    for (place, variant, _, day), each in sums.items():
        found[place, variant, day] = found.get((place, variant, day), VariantTotals()) + each
    return found


def figures(sums: VariantTotals) -> list[float]:
    return [float(each) for each in sums.values()]


def near(sums: VariantTotals) -> Any:
    return pytest.approx(figures(sums))


@pytest.mark.parametrize("place", range(len(DEFINITIONS)))
def test_read_users__after_a_history__are_all_exposed_ones_in_order_and_capped(
    experiment: Experiment, place: int
) -> None:
    totals, cap = totals_by_hand(experiment), read_caps(experiment).get(place, 1e300)
    users = sorted(exposed(experiment), key=lambda each: (each.exposed_at, each.user_id))
    found = (totals.get((place, each.user_id), (None, None, None, 0, 0, 0)) for each in users)

    assert list(read_users(experiment, place)) == [
        (user.user_id, user.exposed_at, pytest.approx(min(y, cap)), pytest.approx(d), pytest.approx(min(x, cap)))
        for user, (_, _, _, y, d, x, *_) in zip(users, found, strict=True)
    ]
    assert len(users) > 2


def test_read_caps__fixed_and_percentile__are_those_in_force(experiment: Experiment) -> None:
    values = sorted(total[3] for (place, _), total in totals_by_hand(experiment).items() if place == 2 and total[3])

    assert read_caps(experiment) == {1: 2, 2: values[-(-60 * len(values) // 100) - 1]}


@pytest.mark.parametrize(("seconds", "users"), [(3600, 2), (3599.9, 1), (3598, 1), (3597, 0), (3601.5, 2)])
def test_count_mature__whole_seconds_since_the_exposure__count_those_whose_span_has_passed(
    production: Environment, seconds: float, users: int
) -> None:
    experiment = ExperimentFactory(running=True)
    assign(experiment.pk, "u", "green", NOON + timedelta(seconds=-2))
    assign(experiment.pk, "v", "green", NOON + timedelta(seconds=0.9))
    refresh(experiment, NOON)

    hour = timedelta(hours=1)
    counted = count_mature(experiment, [hour, timedelta(days=300)], NOON + timedelta(seconds=seconds))
    assert counted[hour].get("green", 0) == users
    assert counted[timedelta(days=300)].get("green", 0) == 0


def test_count_mature__some_phases__counts_those_who_were_exposed_in_them(experiment: Experiment) -> None:
    long_ago = timedelta(seconds=1)
    for phases in ([1], [2, 3], [7]):
        users = [each for each in exposed(experiment) if each.phase in phases]
        counted = count_mature(experiment, [long_ago], NOON + timedelta(days=30), phases)[long_ago]
        assert counted == Counter(each.variant for each in users)


@pytest.mark.parametrize(
    "read", [read_sums, read_phases, read_daily, lambda experiment: count_mature(experiment, [timedelta(1)] * 3, NOON)]
)
def test_reading__any_number_of_metrics__takes_one_statement(
    experiment: Experiment, read: Callable[[Experiment], Any], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert read(experiment)
