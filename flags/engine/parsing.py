"""Check and compile flags and segments from decoded JSON. Sent and stored documents pass the same functions.

Whether the flags and segments that they name exist is checked in `flags.changes.references`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.errors import Detail, ValidationFailed
from flags.engine.conditions import check_conditions, compile_condition
from flags.engine.experiment_rule import ExperimentRule, compile_experiment_rule
from flags.engine.rule_checks import check_rules, check_user_ids
from flags.engine.rules import compile_rule
from flags.engine.shapes import MOST_VARIANTS, check_distinct, check_key, check_list, check_object, variant_keys
from flags.engine.timetable import NEVER, combine
from flags.engine.types import Evaluation, Flag, Prerequisite, Reason, RuleType, Segment, Variant
from flags.engine.values import check_values, with_served_variants

__all__ = ["Reference", "parse_flag", "parse_segment", "references", "with_served_variants"]

FLAG, SEGMENT = "flag", "segment"
MOST_PREREQUISITES = 20
MOST_USER_IDS = 100_000
_NONE: frozenset[str] = frozenset()


def parse_flag(document: Mapping[str, Any]) -> Flag:
    """Check a flag and return its compiled form. A document that parses can be stored as it is, and parsed again.

    `document` has key, enabled and rules and, if the flag has them, type, variants, offVariant,
    defaultVariant, schema, prerequisites and archivedAt. Values are decoded JSON of any shape,
    except that key and enabled must be valid. Raises ValidationFailed with a detail for every wrong
    field, such as `rules[2].conditions[1].operator`.
    """
    _refuse(_check_flag(document))
    return compile_flag(document)


def compile_flag(document: Mapping[str, Any]) -> Flag:
    """Return the compiled form of a document that has been parsed before, as every stored one has."""
    served = with_served_variants(document)
    variants = {entry["key"]: Variant(entry["key"], entry["value"]) for entry in served.get("variants", ())}
    default, off = (variants.get(served.get(name, "")) for name in ("defaultVariant", "offVariant"))
    default_key = default.key if default else None
    sources = served.get("rules", ())
    enabled = served["enabled"] and not served.get("archivedAt")
    rules = tuple(
        compile_experiment_rule(rule, index=index, variants=variants)
        if rule["type"] == RuleType.EXPERIMENT
        else compile_rule(rule, index=index, salt=served["key"], variants=variants, default=default_key)
        for index, rule in enumerate(sources)
    )
    otherwise = (False, Reason.NO_RULE_MATCH, off) if rules else (True, Reason.DEFAULT, default)
    return Flag(
        key=served["key"],
        enabled=enabled,
        rules=rules,
        prerequisites=tuple(map(_compile_prerequisite, served.get("prerequisites", ()))),
        disabled=Evaluation.of(False, Reason.DISABLED, off),
        prerequisite_failed=Evaluation.of(False, Reason.PREREQUISITE_FAILED, off),
        otherwise=Evaluation.of(*otherwise),
        source=served,
        is_fractional=any(isinstance(variant.value, float) for variant in variants.values()),
        times=combine(rule.times for rule in rules) if enabled else NEVER,
        experiments=frozenset(rule.salt for rule in rules if isinstance(rule, ExperimentRule)) if enabled else _NONE,
    )


def parse_segment(document: Mapping[str, Any]) -> Segment:
    """Check a segment and return its compiled form. `document` has a valid key, conditions and userIds.

    Raises ValidationFailed with a detail for every wrong field.
    """
    _refuse(_check_segment(document))
    return compile_segment(document)


def compile_segment(document: Mapping[str, Any]) -> Segment:
    """Return the compiled form of a document that has been parsed before, as every stored one has."""
    steps = tuple(map(compile_condition, document.get("conditions", ())))
    return Segment(
        key=document["key"],
        source=document,
        user_ids=frozenset(document.get("userIds", ())),
        steps=steps,
        tests=tuple(step.test for step in steps),
        times=combine(step.times for step in steps),
    )


@dataclass(frozen=True, slots=True)
class Reference:
    """A flag or segment that a document names and that must exist, with the field that names it.

    `variants` are the variants that the flag must have, each with its field.
    """

    kind: str
    key: str
    field: str
    variants: tuple[tuple[str, str], ...] = ()


def references(document: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the flags and segments that a parsed document of a flag or a segment names."""
    for index, prerequisite in enumerate(document.get("prerequisites", ())):
        field = f"prerequisites[{index}]"
        variants = ((key, f"{field}.variants[{n}]") for n, key in enumerate(prerequisite.get("variants", ())))
        yield Reference(FLAG, prerequisite["flag"], f"{field}.flag", tuple(variants))
    yield from _segments_of_conditions(document, "")
    for index, rule in enumerate(document.get("rules", ())):
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


def _check_flag(document: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_values(document)
    keys = variant_keys(document.get("variants"))
    yield from check_rules(document.get("rules", []), "rules", variants=keys)
    if "prerequisites" in document:
        yield from _check_prerequisites(document["prerequisites"])


def _check_prerequisites(value: object) -> Iterator[Detail]:
    check, noun = _check_prerequisite, "prerequisites"
    details = list(check_list(value, "prerequisites", least=0, most=MOST_PREREQUISITES, noun=noun, check=check))
    yield from details
    if not details and isinstance(value, list):
        flags = [prerequisite["flag"] for prerequisite in value]
        yield from check_distinct(flags, (f"prerequisites[{index}].flag" for index in range(len(flags))))


def _check_prerequisite(value: object, field: str) -> Iterator[Detail]:
    checks = {"flag": check_key, "variants": _check_variant_keys}
    return check_object(value, field, checks=checks, required=("flag",), example='{"flag": "new-checkout"}')


def _check_variant_keys(value: object, field: str) -> Iterator[Detail]:
    details = list(check_list(value, field, least=1, most=MOST_VARIANTS, noun="keys of variants", check=check_key))
    yield from details
    if not details and isinstance(value, list):
        yield from check_distinct(value, (f"{field}[{index}]" for index in range(len(value))))


def _compile_prerequisite(source: Mapping[str, Any]) -> Prerequisite:
    return Prerequisite(source["flag"], tuple(source.get("variants", ())))


def _check_segment(document: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_conditions(document.get("conditions", []), "conditions")
    yield from check_user_ids(document.get("userIds", []), "userIds", least=0, most=MOST_USER_IDS)
