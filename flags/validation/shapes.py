"""Checks of decoded JSON: strings, numbers, lists, objects, percentages, weights and keys.

Each check yields one `Detail` for each wrong field, and never raises.
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
"""Yields the errors of a decoded JSON value. The second argument is the caller's name of the field."""


@dataclass(frozen=True, slots=True)
class Field:
    """The check of a field of a rule, and its JSON Schema."""

    check: Check
    schema: dict[str, Any]


ECHOED = 50
MAX_VARIANTS = 50
MAX_WEIGHT = 1_000_000_000
_SHOWN_VARIANTS = 5


def echo(text: str) -> str:
    """Return the part of a caller's text that an answer may repeat: 50 characters, without lone surrogates."""
    return text[:ECHOED].encode(errors="replace").decode()


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a JSON number. In Python, booleans are integers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_number(value: object, field: str) -> Iterator[Detail]:
    """Accept any finite number."""
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    # isfinite() cannot take an integer too large for a float.
    elif isinstance(value, float) and not math.isfinite(value):
        yield Detail(field, DetailCode.INVALID_VALUE, "Must be a finite number.")


def check_text(value: object, field: str) -> Iterator[Detail]:
    """Accept any string except the empty one."""
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif not value:
        yield Detail(field, DetailCode.INVALID_VALUE, "Must not be empty.")


def check_name(value: object, field: str) -> Iterator[Detail]:
    """Accept a string of 1 to 200 characters, such as a user id or the name of an attribute."""
    yield from check_text(value, field)
    if isinstance(value, str) and len(value) > 200:
        yield Detail(field, DetailCode.TOO_LONG, "Must have at most 200 characters.")


def check_scalar(value: object, field: str) -> Iterator[Detail]:
    """Accept a string, a finite number or a boolean."""
    if is_number(value):
        yield from check_number(value, field)
    elif not isinstance(value, str | bool):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string, a number or a boolean.")


def check_list(
    value: object, field: str, *, min_length: int, max_length: int, noun: str, check: Check
) -> Iterator[Detail]:
    """Accept a list of `min_length` to `max_length` entries that pass `check`.

    Entries of a list of the wrong size are not checked, so that the work is bounded.
    """
    if not isinstance(value, list):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be a list of {noun}.")
    elif not min_length <= len(value) <= max_length:
        size = f"{min_length} to {max_length:,}" if min_length else f"at most {max_length:,}"
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have {size} {noun}.")
    else:
        for index, entry in enumerate(value):
            yield from check(entry, f"{field}[{index}]")


def check_key(value: object, field: str) -> Iterator[Detail]:
    """Accept a well-formed key."""
    if isinstance(value, str):
        yield from key_details(value, field)
    else:
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")


def check_boolean(value: object, field: str) -> Iterator[Detail]:
    """Accept true or false."""
    if not isinstance(value, bool):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be true or false.")


def check_readable(value: object, field: str, *, read: Callable[[str], object], message: str) -> Iterator[Detail]:
    """Accept a string for which `read` raises no ValueError. `message` says what the string must be."""
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, message)
        return
    try:
        read(value)
    except ValueError:
        yield Detail(field, DetailCode.INVALID_VALUE, message)


def check_timestamp(value: object, field: str) -> Iterator[Detail]:
    """Accept an ISO 8601 timestamp."""
    message = "Must be a date and time such as 2026-01-31T12:00:00Z."
    return check_readable(value, field, read=parse_timestamp, message=message)


def check_choice(value: object, field: str, *, noun: str, choices: Collection[str]) -> Iterator[Detail]:
    """Accept one of the texts in `choices`."""
    listed = ", ".join(choices)
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be a string, one of: {listed}.")
    elif value not in choices:
        yield Detail(field, DetailCode.INVALID_VALUE, f'Unknown {noun} "{echo(value)}"; use one of: {listed}.')


def check_keys(
    sent: Mapping[str, object], field: str, *, known: Collection[str], required: Collection[str]
) -> Iterator[Detail]:
    """Accept an object with all names in `required` and no names outside `known`."""
    for name in sent:
        if name not in known:
            message = f"Unknown field; leave it out. The fields are: {', '.join(known)}."
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
    """Accept an object whose fields pass their checks. `known` restricts the fields in `checks`."""
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be an object such as {example}.")
        return
    names = checks if known is None else known
    yield from check_keys(value, field, known=names, required=required)
    for name in names:
        if name in value:
            yield from checks[name](value[name], f"{field}.{name}")


def check_distinct(values: Iterable[object], fields: Iterable[str]) -> Iterator[Detail]:
    """Accept strings that are all different. Other values are ignored, because other checks refuse them."""
    seen: set[str] = set()
    for value, field in zip(values, fields, strict=True):
        if isinstance(value, str):
            if value in seen:
                yield Detail(field, DetailCode.DUPLICATE, f'"{echo(value)}" is already in the list; leave it out.')
            seen.add(value)


def check_percentage(value: object, field: str) -> Iterator[Detail]:
    """Accept a number from 0 to 100 in steps of 0.001."""
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
    """Accept a number from 0 to a billion."""
    yield from check_number(value, field)
    if is_number(value) and not 0 <= value <= MAX_WEIGHT:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from 0 to {MAX_WEIGHT:,}.")


def check_weights(weights: Sequence[Number], field: str) -> Iterator[Detail]:
    """Accept valid weights of which at least one is above 0."""
    try:
        split_bounds(weights)
    except ValueError:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must have weights with a sum above 0.")


def variant_keys(variants: Any) -> list[str]:
    """Return the keys of variants that are well-formed."""
    entries = variants[:MAX_VARIANTS] if isinstance(variants, list) else ()
    keys = (entry.get("key") for entry in entries if isinstance(entry, Mapping))
    return [key for key in keys if isinstance(key, str)]


def unknown_variant(key: str, variants: Collection[str], *, of: str = "flag") -> str:
    """Return the message for a key that no variant has."""
    listed = ", ".join(islice(variants, _SHOWN_VARIANTS))
    more = ", ..." if len(variants) > _SHOWN_VARIANTS else ""
    return f'The {of} has no variant "{echo(key)}"; it has: {listed or "none"}{more}.'
