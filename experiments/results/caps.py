"""Caps at a percentile of the users' values other than 0, and finding a value by its rank.

One server sorts the values by an index. On Citus, each worker would send as many values as the rank says, which are
those of nearly all users for some percentiles. There, the workers count their values between thresholds, then again
between the two where the rank falls, until few values are left. The values themselves are compared, so that the answer
is exact.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from sys import float_info
from typing import Any, NamedTuple

from django.db.models import Count, F, Max, Min, QuerySet

from config.database.engines import is_distributed
from experiments.metrics.definition import Definition
from experiments.models import UserValue
from experiments.results.expressions import Bucket

PARTS = 256
"""An interval of values is split into so many parts, and one for its greatest value."""
MAX_FETCHED = 1_000
"""So many values at most are sent by workers to be sorted."""


def find_cap(definition: Definition, values: QuerySet[UserValue], number: int | None = None) -> float | None:
    """Return the cap of a metric: its fixed one, or the percentile of these values; None without one.

    `values` are the rows of the metric. `number` says how many users have a value other than 0; None has them counted.
    """
    if definition.cap_percentile is None:
        return definition.cap_value
    ranked = values.filter(value__isnull=False)
    number = ranked.count() if number is None else number
    return percentile_cap(definition.cap_percentile, number, lambda rank: find_by_rank(ranked, "value", rank))


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float | None]) -> float | None:
    """Return the percentile (50 to 100) of `number` values other than 0, by nearest rank.

    `from_above` returns a value by its rank, 0 for the greatest, so that fewer values are sorted than from below. The
    cap is None without values, and where it would be 0 or less, because users without events count as 0.
    """
    if not number:
        return None
    cap = from_above(number - math.ceil(number * Fraction(str(percentile)) / 100))
    return cap if cap is not None and cap > 0 else None


def find_by_rank(rows: QuerySet[Any], name: str, rank: int) -> float | None:
    """Return the value with a rank, 0 for the greatest, of a column or an annotation that is a number.

    Return None where there are not so many values.
    """
    if is_distributed():
        return _find_by_counting(rows, name, rank)
    found = rows.order_by(F(name).desc()).values_list(name, flat=True)[rank : rank + 1]
    return next(map(float, found), None)


class _Cell(NamedTuple):
    """The values of one part of an interval: their number, the smallest and the greatest."""

    number: int
    least: float
    greatest: float


def _find_by_counting(rows: QuerySet[Any], name: str, rank: int) -> float | None:
    whole = cell = _Cell(0, -float_info.max, float_info.max)
    while cell.least < cell.greatest:
        within = rows.filter(**{f"{name}__gte": cell.least, f"{name}__lte": cell.greatest})
        if cell is not whole and cell.number <= MAX_FETCHED:
            found = within.order_by(F(name).desc()).values_list(name, flat=True)[rank : rank + 1]
            return next(map(float, found), cell.least)
        for part in _split(within, name, cell):
            if rank < part.number:
                cell = part
                break
            rank -= part.number
        else:
            # Where a value is computed from events, its last digit may differ when it is computed again.
            return None if cell is whole else cell.least
    return cell.least


def _split(within: QuerySet[Any], name: str, cell: _Cell) -> list[_Cell]:
    """Count the values in each part of a cell, and return those that have any, from above."""
    part = Bucket(F(name), _thresholds(cell.least, cell.greatest))
    counted = within.order_by().values(part=part).annotate(number=Count(name), least=Min(name), greatest=Max(name))
    return [_Cell(row["number"], row["least"], row["greatest"]) for row in counted.order_by("-part")]


def _thresholds(least: float, greatest: float) -> list[float]:
    """Return the least value of each part but the first. The last one is the greatest value.

    As many floats are in each part, so that no more than eight splits separate any two of the 2^64 floats. With parts
    of the same width, a few huge values would leave all others in the first part.
    """
    first, last = _place_of(least), _place_of(greatest)
    places = {first - (first - last) * part // PARTS for part in range(1, PARTS + 1)}
    return [_float_at(place) for place in sorted(places - {first})]


def _place_of(value: float) -> int:
    """Return the place of a float among all floats in ascending order; that of 0 is 0."""
    bits = int.from_bytes(struct.pack(">d", abs(value)))
    return bits if value > 0 else -bits


def _float_at(place: int) -> float:
    value = float(struct.unpack(">d", abs(place).to_bytes(8))[0])
    return value if place >= 0 else -value
