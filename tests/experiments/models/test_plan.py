"""The tuning size that follows from a plan, and the end of the shortest run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.models import Experiment
from experiments.models.plan import new_plan, remaining_run, tuning_size_of
from tests.conftest import NOON


def design(*weights: float, **values: Any) -> dict[str, Any]:
    variants = [{"key": f"v{at}", "weight": weight} for at, weight in enumerate(weights)]
    return {**new_plan(), "variants": variants, **values}


def test_tuning_size__without_a_given_one__follows_from_planned_size_and_weights(subtests: pytest.Subtests) -> None:
    for weights, planned, expected in [
        ((50, 50), None, 5_000),
        ((50, 50), 20_000, 20_000),
        ((1, 1, 1), 30_000, 20_000),
        ((50, 30, 10, 10), 6_000, 4_000),  # the mean of the treatments is 16.67 of 100
        ((0.1, 0.2), 3_000, 3_000),
        ((50, 50, 0), 8_000, 8_000),  # a variant without users counts for nothing
        ((1, 0), 700, 700),
        ((0, 1), 700, 700),
        ((1, 1), 10, 100),
        ((1, 1), 2_000_000_000, 10_000_000),
    ]:
        with subtests.test(weights=weights):
            assert tuning_size_of(design(*weights, planned_size=planned)) == expected


def test_tuning_size__that_was_given__stays_whatever_is_planned() -> None:
    assert tuning_size_of(design(1, 1, planned_size=90_000, given_tuning_size=700)) == 700


@pytest.mark.parametrize(
    ("started", "stopped", "after", "expected"),
    [
        (None, None, 3, 7),
        (0, None, 0, 7),
        (0, None, 3, 4),
        (0, None, 7, 0),
        (0, None, 9, -2),
        (0, 2, 9, 5),  # a stop ends the run
        (0, 20, 9, -2),
    ],
)
def test_remaining_run__counts_until_the_moment_or_an_earlier_stop(
    started: int | None, stopped: int | None, after: int, expected: int
) -> None:
    def moment(days: int | None) -> Any:
        return None if days is None else NOON + timedelta(days=days)

    registered = None if started is None else {"minimumDays": 7}
    times = {"started_at": moment(started), "stopped_at": moment(stopped)}
    experiment = Experiment(minimum_days=7, registration=registered, **times)
    assert remaining_run(experiment, NOON + timedelta(days=after)) == timedelta(days=expected)
