"""The caps at a percentile of the values other than 0, from the totals of all users."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from experiments.aggregates.dialects import Parameters, fetch
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.ranks import find_by_rank
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, UserTotal


def count_measured(experiment: Experiment, metric_index: int) -> int:
    """Return the number of users whose value is not 0, from their totals."""
    parameters = Parameters()
    _, rows = _measured(experiment, metric_index, parameters)
    [[number]] = fetch(f"SELECT COUNT(*) FROM {rows}", parameters)  # noqa: S608 (no data)
    return int(number)


def _measured(experiment: Experiment, metric_index: int, parameters: Parameters) -> tuple[str, str]:
    """Return SQL for the value of a user, and for the rows of the users whose value is not 0."""
    experiment_id, value = parameters.put(experiment.pk), Layout(definitions_of(experiment)).figure(metric_index, "y")
    return value, f"{UserTotal._meta.db_table} WHERE experiment_id = {experiment_id} AND {value} <> 0"


def find_percentile(experiment: Experiment, metric_index: int, percentile: float, number: int) -> float | None:
    """Return the cap of a metric at a percentile, given how many users have a value other than 0."""

    def from_above(rank: int) -> float | None:
        parameters = Parameters()
        value, rows = _measured(experiment, metric_index, parameters)
        return find_by_rank(value, rows, parameters, rank)

    return percentile_cap(percentile, number, from_above)


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float | None]) -> float | None:
    """Return the percentile (50 to 100) of `number` values other than 0, by nearest rank.

    `from_above` returns a value by its rank, 0 for the greatest, so that fewer values are sorted than from below. The
    cap is None without values, and where it would be 0 or less, because users without events count as 0.
    """
    if not number:
        return None
    cap = from_above(rank_from_above(percentile, number))
    return cap if cap is not None and cap > 0 else None


def rank_from_above(percentile: float, number: int) -> int:
    return number - math.ceil(number * Fraction(str(percentile)) / 100)
