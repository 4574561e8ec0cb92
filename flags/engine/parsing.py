"""Reading flags and segments from decoded JSON: what is sent and what is stored is read by the same functions.

Not here: whether what they name exists, and where they are kept.
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
from flags.engine.shapes import MOST_VARIANTS, check_distinct, check_key, check_list, check_object
from flags.engine.timetable import NEVER, combine
from flags.engine.types import Evaluation, Flag, Prerequisite, Reason, RuleType, Segment, Variant
from flags.engine.values import check_values, with_served_variants

__all__ = ["Reference", "parse_flag", "parse_segment", "references", "with_served_variants"]

FLAG, SEGMENT = "flag", "segment"
MOST_USER_IDS = 100_000
_NONE: frozenset[str] = frozenset()


def parse_flag(document: Mapping[str, Any]) -> Flag:
    """Return the compiled flag. What parses can be stored as it was sent, and be read again by this function.

    `document` has key, enabled and rules and, where the flag has them, type, variants, offVariant, defaultVariant,
    schema, prerequisites and archivedAt, with decoded JSON of any shape; the first two are taken as they are. Raises
    ValidationFailed with a detail for every wrong field, such as `rules[2].conditions[1].operator`, and nothing else.
    """
    _refuse(_check_flag(document))
    return compile_flag(document)


def compile_flag(document: Mapping[str, Any]) -> Flag:
    """Return the compiled form of a document that has been parsed once, as all that are stored have."""
    served = with_served_variants(document)
    variants = {each["key"]: Variant(each["key"], each["value"]) for each in served.get("variants", ())}
    default, off = (variants.get(served.get(name, "")) for name in ("defaultVariant", "offVariant"))
    default_key = default.key if default else None
    sources = served.get("rules", ())
    enabled = served["enabled"] and not served.get("archivedAt")
    rules = tuple(
        compile_experiment_rule(rule, index=at, variants=variants)
        if rule["type"] == RuleType.EXPERIMENT
        else compile_rule(rule, index=at, salt=served["key"], variants=variants, default=default_key)
        for at, rule in enumerate(sources)
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
    """Return the compiled segment. `document` has key, which is taken as it is, conditions and userIds.

    Raises ValidationFailed with a detail for every wrong field, and nothing else.
    """
    _refuse(_check_segment(document))
    return compile_segment(document)


def compile_segment(document: Mapping[str, Any]) -> Segment:
    """Return the compiled form of a document that has been parsed once, as all that are stored have."""
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
    """Another flag or segment that a document names, which must exist, and where it names it.

    `variants` are those that the other flag must have, each with its own field.
    """

    kind: str
    key: str
    field: str
    variants: tuple[tuple[str, str], ...] = ()


def references(document: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield what a flag's or a segment's document, one that parses, names besides itself."""
    for at, prerequisite in enumerate(document.get("prerequisites", ())):
        field = f"prerequisites[{at}]"
        variants = ((key, f"{field}.variants[{n}]") for n, key in enumerate(prerequisite.get("variants", ())))
        yield Reference(FLAG, prerequisite["flag"], f"{field}.flag", tuple(variants))
    yield from _segments_of_conditions(document, "")
    for at, rule in enumerate(document.get("rules", ())):
        if "segment" in rule:
            yield Reference(SEGMENT, rule["segment"], f"rules[{at}].segment")
        yield from _segments_of_conditions(rule, f"rules[{at}].")


def _segments_of_conditions(holder: Mapping[str, Any], prefix: str) -> Iterator[Reference]:
    for at, condition in enumerate(holder.get("conditions", ())):
        if condition["operator"] == "inSegment":
            yield Reference(SEGMENT, condition["value"], f"{prefix}conditions[{at}].value")


def _refuse(found: Iterator[Detail]) -> None:
    if details := list(found):
        raise ValidationFailed(details)


def _check_flag(document: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_values(document)
    yield from check_rules(document.get("rules", []), "rules", variants=_variant_keys(document))
    if "prerequisites" in document:
        yield from _check_prerequisites(document["prerequisites"])


def _variant_keys(document: Mapping[str, Any]) -> list[str]:
    variants = document.get("variants")
    entries = variants[:MOST_VARIANTS] if isinstance(variants, list) else ()
    keys = (entry.get("key") for entry in entries if isinstance(entry, dict))
    return [key for key in keys if isinstance(key, str)]


def _check_prerequisites(value: object) -> Iterator[Detail]:
    found = list(check_list(value, "prerequisites", least=0, most=20, noun="prerequisites", check=_check_prerequisite))
    yield from found
    if not found and isinstance(value, list):
        yield from check_distinct(
            [each["flag"] for each in value], (f"prerequisites[{at}].flag" for at in range(len(value)))
        )


def _check_prerequisite(value: object, field: str) -> Iterator[Detail]:
    checks = {"flag": check_key, "variants": _check_variant_keys}
    return check_object(value, field, checks=checks, required=("flag",), example='{"flag": "new-checkout"}')


def _check_variant_keys(value: object, field: str) -> Iterator[Detail]:
    found = list(check_list(value, field, least=1, most=MOST_VARIANTS, noun="keys of variants", check=check_key))
    yield from found
    if not found and isinstance(value, list):
        yield from check_distinct(value, (f"{field}[{at}]" for at in range(len(value))))


def _compile_prerequisite(source: Mapping[str, Any]) -> Prerequisite:
    return Prerequisite(source["flag"], tuple(source.get("variants", ())))


def _check_segment(document: Mapping[str, Any]) -> Iterator[Detail]:
    yield from check_conditions(document.get("conditions", []), "conditions")
    yield from check_user_ids(document.get("userIds", []), "userIds", least=0, most=MOST_USER_IDS)
