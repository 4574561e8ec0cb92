"""Where the caps of metrics lie: what greater values of users count as."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from experiments.aggregates.dialects import Parameters, fetch
from experiments.aggregates.metric_columns import Layout
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, UserTotal


def find_cap(
    experiment: Experiment, place: int, definition: Definition, measured: Callable[[int], int]
) -> float | None:
    """The value that greater ones count as: fixed, or a percentile of those measured. None where there is no cap.

    `measured` tells how many users have a value other than 0, by the place of the metric.
    """
    if definition.cap_percentile is None:
        return None if definition.cap_value is None else float(definition.cap_value)

    def from_above(which: int) -> float:  # so that fewer have to be sorted
        parameters = Parameters()
        value, measured_ones = _measured(experiment, place, parameters)
        statement = f"SELECT {value} FROM {measured_ones}"  # noqa: S608 (no data)
        return float(fetch(f"{statement} ORDER BY 1 DESC LIMIT 1 OFFSET {which}", parameters)[0][0])

    return percentile_cap(definition.cap_percentile, measured(place), from_above)


def count_measured(experiment: Experiment, place: int) -> int:
    """The users whose value is not 0, by their totals."""
    parameters = Parameters()
    _, measured = _measured(experiment, place, parameters)
    [[number]] = fetch(f"SELECT COUNT(*) FROM {measured}", parameters)  # noqa: S608 (no data)
    return int(number)


def _measured(experiment: Experiment, place: int, parameters: Parameters) -> tuple[str, str]:
    """The value of a user, and the rows of those whose value is not 0."""
    whose, value = parameters.put(experiment.pk), Layout(definitions_of(experiment)).figure(place, "y")
    return value, f"{UserTotal._meta.db_table} WHERE experiment_id = {whose} AND {value} <> 0"


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float]) -> float | None:
    """The percentile (50 to 100) of so many values that are not 0, by nearest rank.

    `from_above` tells a value by its place among them, 0 for the greatest. None where there are none, or where the cap
    would lie below 0, as which users without events count.
    """
    if not number:
        return None
    rank = math.ceil(number * Fraction(str(percentile)) / 100)
    cap = from_above(number - rank)
    return cap if cap > 0 else None
