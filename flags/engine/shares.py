"""Shares as they may be written: percentages, and the weights of variants.

Not here: who falls into a share (`bucketing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from config.errors import Detail, DetailCode
from flags.engine.bucketing import Number, split_bounds, threshold
from flags.engine.shapes import check_number, echo, is_number

MOST_VARIANTS = 50
MOST_WEIGHT = 1_000_000_000
_SHOWN_VARIANTS = 5


def check_percentage(value: object, field: str) -> Iterator[Detail]:
    """Take a number from 0 to 100 in steps of 0.001."""
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number from 0 to 100.")
    elif not 0 <= value <= 100:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be a number from 0 to 100.")
    else:
        try:
            threshold(value)
        except ValueError:
            yield Detail(field, DetailCode.INVALID_VALUE, "Must have at most three decimals, such as 12.5 or 0.125.")


def check_weight(value: object, field: str) -> Iterator[Detail]:
    """Take a number from 0 to a billion."""
    yield from check_number(value, field)
    if is_number(value) and not 0 <= value <= MOST_WEIGHT:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from 0 to {MOST_WEIGHT:,}.")


def check_sum(weights: Sequence[Number], field: str) -> Iterator[Detail]:
    """Take weights, each of which passed its check, of which one at least is above 0."""
    try:
        split_bounds(weights)
    except ValueError:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must have weights with a sum above 0.")


def keys_of(variants: Any) -> list[str]:
    """The keys of variants; of what may be no variants at all, which others say, those that there are."""
    entries = variants[:MOST_VARIANTS] if isinstance(variants, list) else ()
    keys = (entry.get("key") for entry in entries if isinstance(entry, Mapping))
    return [key for key in keys if isinstance(key, str)]


def unknown_variant(key: str, variants: Collection[str], *, of: str = "flag") -> str:
    """Return what is wrong with a key that none of the variants has."""
    known = ", ".join(islice(variants, _SHOWN_VARIANTS))
    more = ", ..." if len(variants) > _SHOWN_VARIANTS else ""
    return f'The {of} has no variant "{echo(key)}"; it has: {known or "none"}{more}.'
