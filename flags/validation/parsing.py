"""Check and compile flags and segments.

`flags.changes.references` checks whether the flags and segments that they name exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.errors import Detail, ValidationFailed
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.types import Flag, Segment
from flags.validation.conditions import check_conditions
from flags.validation.rules import check_rules, check_user_ids
from flags.validation.shapes import MAX_VARIANTS, check_distinct, check_key, check_list, check_object, variant_keys
from flags.validation.values import check_values

FLAG, SEGMENT = "flag", "segment"
MAX_PREREQUISITES = 20
MAX_USER_IDS = 100_000


def parse_flag(source: Mapping[str, Any]) -> Flag:
    """Check a flag and return its compiled form. JSON that parses can be stored as it is.

    `source` has key, enabled and rules and, optionally, type, variants, offVariant, defaultVariant, schema,
    prerequisites and archivedAt. `key` and `enabled` must be valid; the others may be any decoded JSON. Raises
    ValidationFailed with a detail for every wrong field, such as `rules[2].conditions[1].operator`.
    """
    _refuse(_check_flag(source))
    return compile_flag(source)


def parse_segment(source: Mapping[str, Any]) -> Segment:
    """Check a segment and return its compiled form. Raises ValidationFailed with a detail for every wrong field.

    `source` has a valid key, conditions and userIds.
    """
    _refuse(_check_segment(source))
    return compile_segment(source)


@dataclass(frozen=True, slots=True)
class Reference:
    """A flag or segment that must exist, with the field that names it.

    `variants` are the variants that the flag must have, each with its field.
    """

    kind: str
    key: str
    field: str
    variants: tuple[tuple[str, str], ...] = ()


def references(source: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the flags and segments that valid JSON of a flag or a segment refers to."""
    for index, prerequisite in enumerate(source.get("prerequisites", ())):
        field = f"prerequisites[{index}]"
        variants = ((key, f"{field}.variants[{n}]") for n, key in enumerate(prerequisite.get("variants", ())))
        yield Reference(FLAG, prerequisite["flag"], f"{field}.flag", tuple(variants))
    yield from _segments_of_conditions(source, "")
    for index, rule in enumerate(source.get("rules", ())):
        if "segment" in rule:
            yield Reference(SEGMENT, rule["segment"], f"rules[{index}].segment")
        yield from _segments_of_conditions(rule, f"rules[{index}].")


def _segments_of_conditions(holder: Mapping[str, Any], prefix: str) -> Iterator[Reference]:
    for index, condition in enumerate(holder.get("conditions", ())):
        if condition["operator"] == "inSegment":
            yield Reference(SEGMENT, condition["value"], f"{prefix}conditions[{index}].value")


def _refuse(details: Iterator[Detail]) -> None:
    if listed := list(details):
        raise ValidationFailed(listed)


def _check_flag(source: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_values(source)
    keys = variant_keys(source.get("variants"))
    yield from check_rules(source.get("rules", []), "rules", variants=keys)
    if "prerequisites" in source:
        yield from _check_prerequisites(source["prerequisites"])


def _check_prerequisites(value: object) -> Iterator[Detail]:
    check, noun = _check_prerequisite, "prerequisites"
    details = list(
        check_list(value, "prerequisites", min_length=0, max_length=MAX_PREREQUISITES, noun=noun, check=check)
    )
    yield from details
    if not details and isinstance(value, list):
        flags = [prerequisite["flag"] for prerequisite in value]
        yield from check_distinct(flags, (f"prerequisites[{index}].flag" for index in range(len(flags))))


def _check_prerequisite(value: object, field: str) -> Iterator[Detail]:
    checks = {"flag": check_key, "variants": _check_variant_keys}
    return check_object(value, field, checks=checks, required=("flag",), example='{"flag": "new-checkout"}')


def _check_variant_keys(value: object, field: str) -> Iterator[Detail]:
    details = list(
        check_list(value, field, min_length=1, max_length=MAX_VARIANTS, noun="keys of variants", check=check_key)
    )
    yield from details
    if not details and isinstance(value, list):
        yield from check_distinct(value, (f"{field}[{index}]" for index in range(len(value))))


def _check_segment(source: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_conditions(source.get("conditions", []), "conditions")
    yield from check_user_ids(source.get("userIds", []), "userIds", min_length=0, max_length=MAX_USER_IDS)
