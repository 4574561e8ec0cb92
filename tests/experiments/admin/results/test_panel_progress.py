"""How far an experiment is on its plan."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.admin.results.panel import Progress, build_progress
from experiments.models import Experiment
from experiments.results.types import VariantUsers
from experiments.stats.types import Plan, Weight
from tests.conftest import NOON
from tests.experiments.admin.results.made import CONVERSION, REFUNDS, metric, results, variant

HALF = metric(CONVERSION, variant("blue", 0.1, counted=450), variant("green", 0.1, counted=550))


def progress(plan: Plan, figures: Any = HALF, days: int = 0, **others: Any) -> list[Progress]:
    experiment = Experiment(key="button", registration={"minimumDays": days}, stopped_at=others.pop("stopped_at", None))
    return list(build_progress(results(experiment, [figures], plan=plan, **others)))


def test_shortest_run__until_it_is_over__says_the_days_left() -> None:
    [run] = progress(Plan(remaining=timedelta(days=4, hours=6)), days=7)
    assert (run.name, run.words, run.percent, run.is_done) == ("Shortest run", "5 days left of 7", 39.29, False)
    assert progress(Plan(remaining=timedelta(hours=1)), days=7)[0].words == "1 day left of 7"


@pytest.mark.parametrize(
    ("remaining", "stopped_at"), [(timedelta(0), None), (timedelta(days=-3), None), (timedelta(days=2), NOON)]
)
def test_shortest_run__over_or_stopped__is_not_shown(remaining: timedelta, stopped_at: Any) -> None:
    assert progress(Plan(remaining=remaining), days=7, stopped_at=stopped_at) == []


def test_shortest_run__of_a_draft__is_not_shown() -> None:
    draft = Experiment(key="button")
    assert list(build_progress(results(draft, [HALF], plan=Plan(remaining=timedelta(days=7))))) == []


def test_planned_size__of_the_users_who_count__is_a_share() -> None:
    [size] = progress(Plan(size=4_000, minimum_effect=0.05))
    assert (size.words, size.percent) == (
        "1,000 of 4,000 mature users; smallest effect of interest: 5\N{NO-BREAK SPACE}%",
        25,
    )
    [size] = progress(Plan(size=500))
    assert (size.words, size.percent, size.is_done) == ("1,000 of 500 mature users", 100, True)


def test_planned_size__without_a_primary_metric__is_not_shown() -> None:
    assert progress(Plan(size=4_000), metric(REFUNDS, variant("blue", 0.1))) == []


def test_reading__of_a_fixed_analysis__waits_for_the_slowest_variant() -> None:
    weighted = [VariantUsers("blue", 1, 450, 500), VariantUsers("green", 3, 550, 500), VariantUsers("red", 0, 0, 0)]
    [reading] = progress(Plan(size=2_000, analysis="fixed"), variants=weighted)
    assert (reading.name, reading.percent) == ("Until the one reading", 36.67)
    assert reading.words == "36 % of the way to 2,000 mature users, when every variant has its part"


def test_reading__weights_changed_since__waits_for_the_planned_numbers_of_the_start() -> None:
    now = [VariantUsers("blue", 9, 450, 900), VariantUsers("green", 1, 550, 100)]
    start = [Weight("blue", 1), Weight("green", 1)]
    [reading] = progress(Plan(size=2_000, analysis="fixed", variants=start), variants=now)
    assert reading.percent == 45


def test_reading__that_took_place__says_when() -> None:
    [reading] = progress(Plan(size=2_000, analysis="fixed"), read_at=NOON)
    assert (reading.name, reading.words, reading.is_done) == (
        "The one reading",
        "on 31 Jan 2026, 12:00 UTC; later users do not count",
        True,
    )
