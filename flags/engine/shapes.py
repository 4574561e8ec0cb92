"""What JSON a field may hold: checks that yield one `Detail` for each wrong field, and never raise.

Not here: which fields a rule or a condition has (`parsing`) and what an operator compares with (`operators`).


Shares as they may be written: percentages, and the weights of variants.

Not here: who falls into a share (`bucketing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

from config.errors import Detail, DetailCode
from config.slugs import check_key as key_details
from config.timestamps import parse_timestamp
from flags.engine.bucketing import Number, split_bounds, threshold

Check = Callable[[object, str], Iterator[Detail]]
"""Given a value of decoded JSON and the caller's name for the field, yields what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a rule: `check` yields what is wrong with its value, and `schema` describes it as JSON Schema."""

    check: Check
    schema: dict[str, Any]


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


def check_key(value: object, field: str) -> Iterator[Detail]:
    """Take a key of something: its form alone, not whether there is such a thing."""
    if isinstance(value, str):
        yield from key_details(value, field)
    else:
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")


def check_boolean(value: object, field: str) -> Iterator[Detail]:
    """Take true or false."""
    if not isinstance(value, bool):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be true or false.")


def check_readable(value: object, field: str, *, read: Callable[[str], object], message: str) -> Iterator[Detail]:
    """Take a string for which `read` raises no ValueError; `message` says what it must be."""
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, message)
        return
    try:
        read(value)
    except ValueError:
        yield Detail(field, DetailCode.INVALID_VALUE, message)


def check_moment(value: object, field: str) -> Iterator[Detail]:
    """Take an ISO 8601 timestamp."""
    message = "Must be an ISO 8601 timestamp such as 2026-01-31T12:00:00Z."
    return check_readable(value, field, read=parse_timestamp, message=message)


def check_choice(value: object, field: str, *, noun: str, choices: Collection[str]) -> Iterator[Detail]:
    """Take one of the texts in `choices`."""
    listed = ", ".join(choices)
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be a string, one of: {listed}.")
    elif value not in choices:
        yield Detail(field, DetailCode.INVALID_VALUE, f'Unknown {noun} "{echo(value)}"; use one of: {listed}.')


def check_keys(
    sent: Mapping[str, object], field: str, *, known: Collection[str], required: Collection[str]
) -> Iterator[Detail]:
    """Take an object with no other names than those `known`, and with all those `required`."""
    for name in sent:
        if name not in known:
            message = f"There is no such field here; leave it out. Fields are: {', '.join(known)}."
            yield Detail(f"{field}.{echo(name)}", DetailCode.UNKNOWN_FIELD, message)
    for name in required:
        if name not in sent:
            yield Detail(f"{field}.{name}", DetailCode.REQUIRED, "Is missing; add it.")


def check_object(
    value: object,
    field: str,
    *,
    checks: Mapping[str, Check],
    required: Collection[str],
    example: str,
    known: Collection[str] | None = None,
) -> Iterator[Detail]:
    """Take an object of the fields in `checks`, or of those of them in `known`, each passing its check."""
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be an object, as {example}.")
        return
    names = checks if known is None else known
    yield from check_keys(value, field, known=names, required=required)
    for name in names:
        if name in value:
            yield from checks[name](value[name], f"{field}.{name}")


def check_distinct(values: Iterable[object], fields: Iterable[str]) -> Iterator[Detail]:
    """Take texts of which none stands there twice; what is no text is for other checks to name."""
    seen: set[str] = set()
    for value, field in zip(values, fields, strict=True):
        if isinstance(value, str):
            if value in seen:
                yield Detail(field, DetailCode.DUPLICATE, f'"{echo(value)}" is in the list already; leave it out.')
            seen.add(value)


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


def check_weights(weights: Sequence[Number], field: str) -> Iterator[Detail]:
    """Take weights, each of which passed its check, of which one at least is above 0."""
    try:
        split_bounds(weights)
    except ValueError:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must have weights with a sum above 0.")


def variant_keys(variants: Any) -> list[str]:
    """The keys of variants; of what may be no variants at all, which others say, those that there are."""
    entries = variants[:MOST_VARIANTS] if isinstance(variants, list) else ()
    keys = (entry.get("key") for entry in entries if isinstance(entry, Mapping))
    return [key for key in keys if isinstance(key, str)]


def unknown_variant(key: str, variants: Collection[str], *, of: str = "flag") -> str:
    """Return what is wrong with a key that none of the variants has."""
    known = ", ".join(islice(variants, _SHOWN_VARIANTS))
    more = ", ..." if len(variants) > _SHOWN_VARIANTS else ""
    return f'The {of} has no variant "{echo(key)}"; it has: {known or "none"}{more}.'
