"""The users whom a planned size counts."""

from __future__ import annotations

from tests.experiments.admin.results.made import CONVERSION, EXPERIMENT, REFUNDS, metric, results, variant


def test_planned_users__of_a_primary_metric_with_a_window__are_the_mature_ones() -> None:
    waiting = metric(CONVERSION, variant("blue", 0.1, counted=400), variant("green", 0.1, counted=300))
    assert results(EXPERIMENT, [metric(REFUNDS, variant("blue", 0.1)), waiting]).planned_users == 700


def test_planned_users__without_a_primary_metric__are_all() -> None:
    assert results(EXPERIMENT, [metric(REFUNDS, variant("blue", 0.1))]).planned_users == 2_000
