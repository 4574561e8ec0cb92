"""The rules for the `properties` of an event: a size limit, and types for the reserved names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from uuid import UUID

import msgspec
import orjson

from config.errors import Detail, DetailCode

MAX_BYTES = 32 * 1024
EXPERIMENT_ID = "experimentId"
VARIANT = "variant"


class Reserved(msgspec.Struct):
    """The reserved properties of an event, with which msgspec checks many events at once."""

    revenue: int | float | msgspec.UnsetType = msgspec.UNSET
    currency: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z]{3}\Z")] | msgspec.UnsetType = msgspec.UNSET
    experimentId: str | msgspec.UnsetType = msgspec.UNSET
    variant: str | msgspec.UnsetType = msgspec.UNSET


_MIN_ID_LENGTH, _MAX_ID_LENGTH = len("0" * 32), len("urn:uuid:00000000-0000-0000-0000-000000000000")

_currency = re.compile(r"[A-Za-z]{3}", re.ASCII)


def reference_of(experiment_id: str) -> str:
    """Return the `experimentId` by which an event is found: an id in its usual form, however it is spelled.

    Anything else may be a key, and stays as it is.
    """
    if not _MIN_ID_LENGTH <= len(experiment_id) <= _MAX_ID_LENGTH:
        return experiment_id
    try:
        return str(UUID(experiment_id))
    except ValueError:
        return experiment_id


def property_defects(properties: Mapping[str, Any], path: str = "properties") -> Iterator[Detail]:
    """Yield what is wrong with the reserved properties, and with the size of all properties."""
    for name, check in _RESERVED.items():
        if name in properties:
            yield from check(properties[name], f"{path}.{name}")
    if len(orjson.dumps(properties)) > MAX_BYTES:
        yield Detail(path, DetailCode.TOO_LONG, f"Must be at most {MAX_BYTES // 1024} KiB as JSON.")


def _check_revenue(value: object, field: str) -> Iterator[Detail]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number, such as 19.99.")


def _check_currency(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string, such as EUR.")
    elif not _currency.fullmatch(value):
        yield Detail(field, DetailCode.INVALID_VALUE, "Must be an ISO 4217 code of three letters, such as EUR.")


def _check_string(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")


_RESERVED = {
    "revenue": _check_revenue,
    "currency": _check_currency,
    EXPERIMENT_ID: _check_string,
    VARIANT: _check_string,
}
RESERVED = frozenset(_RESERVED)
