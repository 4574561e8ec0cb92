"""Finding a value by its rank from above, such as the cap at a percentile.

One server sorts the values. On Citus, each worker would send as many values as the rank says, which are those of nearly
all users for some percentiles. There, the workers count their values between thresholds, then again between the two
where the rank falls, until few values are left. The values themselves are compared, so that the answer is exact.
"""

from __future__ import annotations

import struct
from copy import deepcopy
from sys import float_info
from typing import NamedTuple

from config.database.engines import is_distributed
from experiments.aggregates.dialects import Parameters, fetch

PARTS = 256
"""An interval of values is split into so many parts, and one for its greatest value."""
MOST_FETCHED = 1_000
"""So many values at most are sent by workers to be sorted."""


def find_by_rank(value: str, rows: str, parameters: Parameters, rank: int) -> float | None:
    """Return the value with a rank, 0 for the greatest, or None where there are not so many values.

    `value` is an SQL expression of a number, and `rows` is SQL that follows FROM, with its parameters.
    """
    if is_distributed():
        return _find_by_counting(value, rows, parameters, rank)
    found = fetch(f"SELECT {value} FROM {rows} ORDER BY 1 DESC LIMIT 1 OFFSET {rank}", parameters)  # noqa: S608 (no data)
    return float(found[0][0]) if found else None


class _Cell(NamedTuple):
    """The values of one part of an interval: their number, the smallest and the greatest."""

    number: int
    least: float
    greatest: float


def _find_by_counting(value: str, rows: str, parameters: Parameters, rank: int) -> float | None:
    valued = f"(SELECT CAST({value} AS float8) AS value FROM {rows}) AS valued"  # noqa: S608 (no data)
    whole = cell = _Cell(0, -float_info.max, float_info.max)
    while cell.least < cell.greatest:
        if cell is not whole and cell.number <= MOST_FETCHED:
            return _fetch(valued, deepcopy(parameters), cell, rank)
        for part in _split(valued, deepcopy(parameters), cell):
            if rank < part.number:
                cell = part
                break
            rank -= part.number
        else:
            # Where an explanation sums up floats, a value may differ in its last digit when it is computed again.
            return None if cell is whole else cell.least
    return cell.least


def _split(valued: str, parameters: Parameters, cell: _Cell) -> list[_Cell]:
    """Count the values in each part of a cell, and return those that have any, from above."""
    put = parameters.put
    statement = f"""
        SELECT width_bucket(value, {put(_thresholds(cell.least, cell.greatest))}::float8[]) AS part,
            COUNT(*), MIN(value), MAX(value)
        FROM {valued} WHERE value BETWEEN {put(cell.least)} AND {put(cell.greatest)} GROUP BY part ORDER BY part DESC
    """  # noqa: S608 (no data)
    return [_Cell(*counted) for _, *counted in fetch(statement, parameters)]


def _fetch(valued: str, parameters: Parameters, cell: _Cell, rank: int) -> float:
    within = f"value BETWEEN {parameters.put(cell.least)} AND {parameters.put(cell.greatest)}"
    statement = f"SELECT value FROM {valued} WHERE {within} ORDER BY value DESC LIMIT 1 OFFSET {rank}"  # noqa: S608 (no data)
    found = fetch(statement, parameters)
    return float(found[0][0]) if found else cell.least


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
