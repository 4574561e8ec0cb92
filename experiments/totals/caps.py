"""Where the caps of metrics lie: what greater values of users count as."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from experiments.metrics.definition import Definition
from experiments.models import Experiment, UserTotal
from experiments.totals.dialects import Parameters, fetch
from experiments.totals.summing import figure


def find_cap(experiment: Experiment, place: int, definition: Definition) -> float | None:
    """The value that greater ones count as: fixed, or a percentile of those measured. None where there is no cap."""
    if definition.cap_percentile is None:
        return None if definition.cap_value is None else float(definition.cap_value)
    parameters, y = Parameters(), figure(place, "y")
    measured = f"{UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)} AND {y} <> 0"
    [[number]] = fetch(f"SELECT COUNT(*) FROM {measured}", parameters)  # noqa: S608 (no data)

    def from_above(place: int) -> float:  # so that fewer have to be sorted
        statement = f"SELECT {y} FROM {measured} ORDER BY 1 DESC LIMIT 1 OFFSET {place}"  # noqa: S608 (no data)
        return float(fetch(statement, parameters)[0][0])

    return percentile_cap(definition.cap_percentile, number, from_above)


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
