"""What JSON a field may hold: checks that yield one `Detail` for each wrong field, and never raise.

Not here: which fields a rule or a condition has (`parsing`) and what an operator compares with (`operators`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeGuard

from config.errors import Detail, DetailCode

Check = Callable[[object, str], Iterator[Detail]]
"""Given a value of decoded JSON and the caller's name for the field, yields what is wrong with it."""

ECHOED = 50


def echo(text: str) -> str:
    """Return what of the caller's own text may stand in an answer: 50 characters, and none that UTF-8 cannot write."""
    return text[:ECHOED].encode(errors="replace").decode()


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether this is a JSON number: true and false, which Python takes for 1 and 0, are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_number(value: object, field: str) -> Iterator[Detail]:
    """Take any finite number."""
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    # isfinite() cannot take an integer too large for a float.
    elif isinstance(value, float) and not math.isfinite(value):
        yield Detail(field, DetailCode.INVALID_VALUE, "Must be a finite number.")


def check_text(value: object, field: str) -> Iterator[Detail]:
    """Take any string but the empty one."""
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif not value:
        yield Detail(field, DetailCode.INVALID_VALUE, "Must not be empty.")


def check_name(value: object, field: str) -> Iterator[Detail]:
    """Take a string of 1 to 200 characters, as user ids and attribute names are."""
    yield from check_text(value, field)
    if isinstance(value, str) and len(value) > 200:
        yield Detail(field, DetailCode.TOO_LONG, "Must have at most 200 characters.")


def check_scalar(value: object, field: str) -> Iterator[Detail]:
    """Take a string, a finite number or a boolean."""
    if is_number(value):
        yield from check_number(value, field)
    elif not isinstance(value, str | bool):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string, a number or a boolean.")


def check_list(value: object, field: str, *, least: int, most: int, noun: str, check: Check) -> Iterator[Detail]:
    """Take a list of `least` to `most` entries that pass `check`.

    The entries of a list of the wrong size are not looked at, so that the work is bounded.
    """
    if not isinstance(value, list):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be a list of {noun}.")
    elif not least <= len(value) <= most:
        size = f"{least} to {most:,}" if least else f"at most {most:,}"
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have {size} {noun}.")
    else:
        for index, entry in enumerate(value):
            yield from check(entry, f"{field}[{index}]")
