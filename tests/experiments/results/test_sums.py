"""Reading sums by variant, phase and day, values by user, and numbers of mature users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from functools import reduce
from operator import add
from random import Random
from typing import Any

import pytest

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment
from experiments.models import Experiment
from experiments.results.refresh import refresh
from experiments.results.sums import (
    ExactSums,
    pool,
    read_caps,
    read_daily,
    read_phases,
    read_sums,
)
from experiments.results.user_groups import sums_of
from tests.conftest import ACTOR, NOON
from tests.experiments.results.by_hand import Sums, sums_by_hand, values_by_hand
from tests.experiments.results.histories import DEFINITIONS, History, make_experiment
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A stopped experiment after a random history, refreshed."""
    experiment = make_experiment(production)
    history = History(experiment, Random(7))
    for _ in range(40):
        history.chance.choice([history.record, history.report, history.assign, history.move])()
    for euros in (10, 20, 30):  # of users outside the random history
        assign(experiment.pk, f"buyer {euros}", "green", NOON)
        at, bought = NOON + timedelta(hours=3), {"revenue": euros, "currency": "EUR"}
        EventFactory(user_id=f"buyer {euros}", name="buy", timestamp=at, received_at=at, properties=bought)
    arguments = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    stopped = stop_experiment(**arguments, stopped_at=NOON + timedelta(hours=100))
    refresh(stopped, NOON)
    return stopped


def test_read_sums__after_a_history__are_those_of_all_days(experiment: Experiment) -> None:
    by_variant: dict[tuple[int, str], list[ExactSums]] = {}
    for (metric_index, variant, *_), sums in sums_by_hand(experiment).items():
        by_variant.setdefault((metric_index, variant), []).append(sums)

    read = {
        (metric_index, variant): sums
        for metric_index, variants in read_sums(experiment).items()
        for variant, sums in variants.items()
    }
    assert {key: figures(sums) for key, sums in read.items() if sums != ExactSums()} == {
        key: near(reduce(add, parts)) for key, parts in by_variant.items()
    }
    assert len(read) > len(DEFINITIONS)


def test_read_daily__after_a_history__are_those_of_each_day_in_order(experiment: Experiment) -> None:
    read = {
        (metric_index, variant, day): sums
        for metric_index, variants in read_daily(experiment).items()
        for variant, days in variants.items()
        for day, sums in days.items()
    }
    expected = {key: near(sums) for key, sums in pooled(sums_by_hand(experiment)).items()}
    assert {key: figures(sums) for key, sums in read.items() if sums != ExactSums()} == expected
    assert all(list(days) == sorted(days) for variants in read_daily(experiment).values() for days in variants.values())


def test_read_phases__after_a_history__are_those_of_all_days_of_each(experiment: Experiment) -> None:
    by_phase: dict[tuple[int, int, str], list[ExactSums]] = {}
    for (metric_index, variant, phase, _), sums in sums_by_hand(experiment).items():
        by_phase.setdefault((phase, metric_index, variant), []).append(sums)

    read = {
        (phase, metric_index, variant): sums
        for phase, totals in read_phases(experiment).items()
        for metric_index, variants in totals.items()
        for variant, sums in variants.items()
    }
    assert {key: figures(sums) for key, sums in read.items() if sums != ExactSums()} == {
        key: near(reduce(add, parts)) for key, parts in by_phase.items()
    }
    assert {phase for phase, *_ in read} == {1, 2, 3}


@pytest.mark.parametrize("phases", [[1], [2, 3], [7], []])
def test_pool__some_phases__are_the_sums_of_their_days(experiment: Experiment, phases: list[int]) -> None:
    chosen = {key: sums for key, sums in sums_by_hand(experiment).items() if key[2] in phases}
    by_variant: dict[tuple[int, str], list[ExactSums]] = {}
    for (metric_index, variant, *_), sums in chosen.items():
        by_variant.setdefault((metric_index, variant), []).append(sums)
    expected = {key: near(reduce(add, parts)) for key, parts in by_variant.items()}

    totals = pool(read_phases(experiment), phases)
    assert (
        _by_key(
            (metric_index, key, sums) for metric_index, variants in totals.items() for key, sums in variants.items()
        )
        == expected
    )
    daily = read_daily(experiment, phases)
    added = (
        (metric_index, key, reduce(add, days.values()))
        for metric_index, variants in daily.items()
        for key, days in variants.items()
    )
    assert _by_key(added) == expected


def _by_key(rows: Iterable[tuple[int, str, ExactSums]]) -> dict[tuple[int, str], list[float]]:
    return {(metric_index, variant): figures(sums) for metric_index, variant, sums in rows if sums != ExactSums()}


def pooled(sums: Sums) -> dict[tuple[int, str, date], ExactSums]:
    """Return the sums of all phases together."""
    of_all: dict[tuple[int, str, date], ExactSums] = {}
    for (metric_index, variant, _, day), totals in sums.items():
        of_all[metric_index, variant, day] = of_all.get((metric_index, variant, day), ExactSums()) + totals
    return of_all


def figures(sums: ExactSums) -> list[float]:
    return [float(value) for value in sums.values()]


def near(sums: ExactSums) -> Any:
    return pytest.approx(figures(sums))


def test_read_caps__fixed_and_percentile__are_those_in_force(experiment: Experiment) -> None:
    values = sorted(
        row[3] for (metric_index, _), row in values_by_hand(experiment).items() if metric_index == 2 and row[3]
    )

    assert read_caps(experiment) == {1: 2, 2: values[-(-60 * len(values) // 100) - 1]}


@pytest.mark.parametrize("read", [read_sums, read_phases, read_daily])
def test_reading__any_number_of_metrics__takes_one_statement(
    experiment: Experiment, read: Callable[[Experiment], Any], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert read(experiment)


def test_sums_of__ratio__counts_users_with_a_denominator_alone() -> None:
    """Without them, a ratio that few users raise would have too few users to be judged."""
    sums = [ExactSums(positive=2, nonzero=3, active=7), ExactSums(positive=2, nonzero=3), ExactSums(positive=2)]
    assert [sums_of(10, each).nonzero for each in sums] == [7, 3, 2]
