"""Check rules, including those that experiments write. `RULE_FIELDS` also has the JSON Schema of each field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.answers import KEY, MOMENT, NAME, reference
from config.errors import Detail, DetailCode
from config.timestamps import parse_timestamp
from flags.engine.types import RuleType
from flags.validation.conditions import MAX_CONDITIONS, check_conditions
from flags.validation.shapes import (
    MAX_VARIANTS,
    Check,
    Field,
    check_boolean,
    check_choice,
    check_distinct,
    check_key,
    check_list,
    check_name,
    check_object,
    check_percentage,
    check_text,
    check_timestamp,
    check_weight,
    check_weights,
    echo,
    unknown_variant,
    variant_keys,
)

MAX_RULES = 200
MAX_RULE_USER_IDS = 10_000
MAX_RAMP_STEPS = 100
MAX_RANGES = 10
MAX_COMMENT_LENGTH = 1_000
MAX_FORCED = 1_000
_EXPERIMENT_VARIANT = '{"key": "treatment", "weight": 50, "serves": true}'


def check_rules(value: object, field: str, *, variants: Collection[str]) -> Iterator[Detail]:
    """Accept a list of at most 200 rules. They may serve only these variants."""

    def check(rule: object, rule_field: str) -> Iterator[Detail]:
        is_of_experiment = isinstance(rule, dict) and rule.get("type") == RuleType.EXPERIMENT
        return (check_experiment_rule if is_of_experiment else _check_rule)(rule, rule_field, variants)

    return check_list(value, field, min_length=0, max_length=MAX_RULES, noun="rules", check=check)


def check_user_ids(
    value: object, field: str, *, min_length: int = 1, max_length: int = MAX_RULE_USER_IDS
) -> Iterator[Detail]:
    """Accept a list of `min_length` to `max_length` distinct user ids."""
    yield from check_list(value, field, min_length=min_length, max_length=max_length, noun="user ids", check=check_name)
    if isinstance(value, list) and min_length <= len(value) <= max_length:
        yield from check_distinct(value, (f"{field}[{index}]" for index in range(len(value))))


def _check_rule_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[str(kind) for kind in RuleType])


def _check_comment(value: object, field: str) -> Iterator[Detail]:
    yield from check_text(value, field)
    if isinstance(value, str) and len(value) > MAX_COMMENT_LENGTH:
        yield Detail(field, DetailCode.TOO_LONG, f"Must have at most {MAX_COMMENT_LENGTH:,} characters.")


def _check_ramp(value: object, field: str) -> Iterator[Detail]:
    def check_step(step: object, step_field: str) -> Iterator[Detail]:
        checks = {"at": check_timestamp, "percentage": check_percentage}
        example = '{"at": "2026-01-31T12:00:00Z", "percentage": 10}'
        return check_object(step, step_field, checks=checks, required=checks, example=example)

    details = list(check_list(value, field, min_length=1, max_length=MAX_RAMP_STEPS, noun="steps", check=check_step))
    yield from details
    if details or not isinstance(value, list):
        return
    moments = [parse_timestamp(step["at"]) for step in value]
    for index in range(1, len(moments)):
        if moments[index] <= moments[index - 1]:
            message = "Must be later than the step before; put the steps in order of time."
            yield Detail(f"{field}[{index}].at", DetailCode.INVALID_VALUE, message)


def _check_ranges(value: object, field: str) -> Iterator[Detail]:
    def check_range(part: object, part_field: str) -> Iterator[Detail]:
        return check_part(part, part_field, "salt", check_name)

    return check_list(value, field, min_length=1, max_length=MAX_RANGES, noun="ranges", check=check_range)


def _check_split(value: object, field: str) -> Iterator[Detail]:
    def check_part(part: object, part_field: str) -> Iterator[Detail]:
        checks = {"variant": check_key, "weight": check_weight}
        example = '{"variant": "blue", "weight": 50}'
        return check_object(part, part_field, checks=checks, required=checks, example=example)

    noun = "variants with weights"
    details = list(check_list(value, field, min_length=1, max_length=MAX_VARIANTS, noun=noun, check=check_part))
    yield from details
    if details or not isinstance(value, list):
        return
    variants = [part["variant"] for part in value]
    yield from check_distinct(variants, (f"{field}[{index}].variant" for index in range(len(variants))))
    yield from check_weights([part["weight"] for part in value], field)


PERCENTAGE: dict[str, Any] = {
    "type": "number",
    "minimum": 0,
    "maximum": 100,
    "multipleOf": 0.001,
    "description": "The share of the audience that the rule matches, in percent. Default: 100, or "
    "0 before the first step of a `ramp`.",
}
CONDITIONS: dict[str, Any] = {"type": "array", "items": reference("Condition"), "maxItems": MAX_CONDITIONS}
_COMMON: Mapping[str, Field] = {
    "type": Field(_check_rule_type, {"type": "string", "enum": [str(kind) for kind in RuleType]}),
    "name": Field(check_name, {**NAME, "description": "The name of the rule, for people."}),
    "comment": Field(
        _check_comment,
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_COMMENT_LENGTH,
            "description": "Why the rule is as it is, for people. It changes nothing.",
        },
    ),
    "enabled": Field(
        check_boolean,
        {
            "type": "boolean",
            "description": "Whether the rule is on. Default: true. A rule that is off matches nobody.",
        },
    ),
    "percentage": Field(check_percentage, PERCENTAGE),
    "conditions": Field(check_conditions, CONDITIONS),
    "startAt": Field(check_timestamp, {**MOMENT, "description": "The rule matches nobody before this moment."}),
    "endAt": Field(
        check_timestamp,
        {**MOMENT, "description": "The rule matches nobody from this moment on. It must be later than `startAt`."},
    ),
    "salt": Field(check_name, {**NAME, "description": "The salt of the hash. Default: the flag's key."}),
    "bucketBy": Field(
        check_name,
        {
            **NAME,
            "description": "An attribute to hash instead of the user id, such as `company` or `company.id`. "
            "Its value must be a text or a whole number; the rule does not match users without it.",
        },
    ),
    "ramp": Field(
        _check_ramp,
        {
            "type": "array",
            "items": reference("RampStep"),
            "minItems": 1,
            "maxItems": MAX_RAMP_STEPS,
            "description": "Steps in order of time. The percentage of a step applies from its "
            "time on. Before the first step, the percentage of the rule applies, or 0.",
        },
    ),
    "ranges": Field(
        _check_ranges,
        {
            "type": "array",
            "items": reference("BucketRange"),
            "minItems": 1,
            "maxItems": MAX_RANGES,
            "description": "Ranges of buckets, each under a salt of its own. The user must be in all of them, besides "
            "the share. They hash what the share hashes.",
        },
    ),
    "serves": Field(
        check_boolean,
        {
            "type": "boolean",
            "description": "For a flag without variants: whether it is on for the users whom the rule matches. "
            "Default: true.",
        },
    ),
    "variant": Field(
        check_key, {**KEY, "description": "The variant of the flag that the rule serves, instead of `defaultVariant`."}
    ),
    "split": Field(
        _check_split,
        {
            "type": "array",
            "items": reference("SplitPart"),
            "minItems": 1,
            "maxItems": MAX_VARIANTS,
            "description": "Distinct variants of the flag, with weights whose sum is above 0. The user's bucket, "
            "hashed with the rule's salt followed by `:variant`, chooses among them.",
        },
    ),
}
_SPECIAL: Mapping[str, Field] = {
    "userIds": Field(
        check_user_ids,
        {
            "type": "array",
            "items": NAME,
            "minItems": 1,
            "maxItems": MAX_RULE_USER_IDS,
            "uniqueItems": True,
            "description": "The ids of the users in the audience.",
        },
    ),
    "segment": Field(check_key, {**KEY, "description": "The key of the segment whose members are the audience."}),
}
RULE_FIELDS: Mapping[str, Field] = {**_COMMON, **_SPECIAL}
_CHECKS: Mapping[str, Check] = {name: field.check for name, field in RULE_FIELDS.items()}
_REQUIRED: Mapping[str, str] = {
    RuleType.PERCENTAGE: "percentage",
    RuleType.ATTRIBUTE: "conditions",
    RuleType.USERS: "userIds",
    RuleType.SEGMENT: "segment",
}
_EXAMPLE = '{"type": "percentage", "percentage": 25}'


def _check_rule(rule: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    sent = rule.get("type") if isinstance(rule, dict) else None
    special = _REQUIRED.get(sent) if isinstance(sent, str) else None
    # A rule of an unknown type may have any field, so that one answer lists all other mistakes.
    accepted = [*_COMMON, *(name for name in _SPECIAL if special in (name, None))]
    required = ["type"] if special is None or _is_ramped(rule, special) else ["type", special]
    details = list(check_object(rule, field, checks=_CHECKS, known=accepted, required=required, example=_EXAMPLE))
    yield from details
    if not isinstance(rule, dict):
        return
    if special == "conditions" and rule.get("conditions") == []:
        yield Detail(f"{field}.conditions", DetailCode.OUT_OF_RANGE, "Must have 1 to 100 conditions.")
    yield from _check_serving(rule, field, variants)
    if not details:
        yield from _check_schedule(rule, field)


def _is_ramped(rule: object, special: str) -> bool:
    return special == "percentage" and isinstance(rule, dict) and "ramp" in rule


def _check_schedule(rule: Mapping[str, Any], field: str) -> Iterator[Detail]:
    if "startAt" in rule and "endAt" in rule and parse_timestamp(rule["endAt"]) <= parse_timestamp(rule["startAt"]):
        yield Detail(f"{field}.endAt", DetailCode.INVALID_VALUE, "Must be later than startAt.")


def _check_serving(rule: Mapping[str, Any], field: str, variants: Collection[str]) -> Iterator[Detail]:
    if "variant" in rule and "split" in rule:
        message = "A rule serves either one variant or a split; leave one of the two out."
        yield Detail(f"{field}.split", DetailCode.INVALID_VALUE, message)
    if "serves" in rule and variants:
        message = "Must be left out, because the flag has variants; use variant."
        yield Detail(f"{field}.serves", DetailCode.INVALID_VALUE, message)
    served = [(f"{field}.variant", rule.get("variant"))]
    split = rule.get("split")
    # A split that is too long is only refused for its length.
    for index, part in enumerate(split if isinstance(split, list) and len(split) <= MAX_VARIANTS else ()):
        served.append((f"{field}.split[{index}].variant", part.get("variant") if isinstance(part, dict) else None))
    for variant_field, key in served:
        if isinstance(key, str) and key not in variants:
            yield Detail(variant_field, DetailCode.UNKNOWN_REFERENCE, unknown_variant(key, variants))


# --- rules of experiments --------------------------------------------------------------------------------------------


def check_experiment_rule(rule: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept the rule of an experiment that drives a flag. `variants` are those of the flag, if any."""

    def check_variants(value: object, variants_field: str) -> Iterator[Detail]:
        return _check_experiment_variants(value, variants_field, variants)

    def check_forced_variants(value: object, forced_field: str) -> Iterator[Detail]:
        return check_forced(value, forced_field, variant_keys(rule.get("variants")) if isinstance(rule, dict) else ())

    checks: Mapping[str, Check] = {
        "type": _check_experiment_type,
        "experiment": check_key,
        "variants": check_variants,
        "percentage": check_percentage,
        "conditions": check_conditions,
        "group": check_group,
        "forced": check_forced_variants,
    }
    yield from check_object(
        rule, field, checks=checks, required=("type", "experiment", "variants"), example=_EXPERIMENT_VARIANT
    )


def check_group(value: object, field: str) -> Iterator[Detail]:
    """Accept a part of a group of experiments: its key, and a range in percent. `to` is exclusive."""
    return check_part(value, field, "key", check_key)


def check_part(value: object, field: str, name: str, check_salt: Check) -> Iterator[Detail]:
    """Accept a range of buckets in percent, with a salt in the field `name`."""
    checks = {name: check_salt, "from": check_percentage, "to": check_percentage}
    example = f'{{"{name}": "checkout", "from": 0, "to": 50}}'
    details = list(check_object(value, field, checks=checks, required=checks, example=example))
    yield from details
    if not details and isinstance(value, dict) and value["from"] >= value["to"]:
        yield Detail(f"{field}.to", DetailCode.OUT_OF_RANGE, "Must be more than from.")


def check_forced(value: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept variants by user id. `variants` are those of the experiment."""
    if not isinstance(value, dict):
        yield Detail(
            field, DetailCode.INVALID_TYPE, 'Must be an object of variants by user id, such as {"qa-1": "green"}.'
        )
    elif len(value) > MAX_FORCED:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have at most {MAX_FORCED:,} users.")
    else:
        for user_id, variant in value.items():
            user_field = f"{field}.{echo(user_id)}"
            yield from check_name(user_id, user_field)
            if not isinstance(variant, str):
                yield Detail(user_field, DetailCode.INVALID_TYPE, "Must be a string.")
            elif variant not in variants:
                message = unknown_variant(variant, variants, of="experiment")
                yield Detail(user_field, DetailCode.UNKNOWN_REFERENCE, message)


def _check_experiment_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[RuleType.EXPERIMENT.value])


def _check_experiment_variants(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    def check_serves(value: object, serves_field: str) -> Iterator[Detail]:
        return _check_serves(value, serves_field, served)

    def check_variant(variant: object, variant_field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "weight": check_weight, "serves": check_serves}
        return check_object(variant, variant_field, checks=checks, required=checks, example=_EXPERIMENT_VARIANT)

    details = list(
        check_list(value, field, min_length=2, max_length=MAX_VARIANTS, noun="variants", check=check_variant)
    )
    yield from details
    if not details and isinstance(value, list):
        keys = [variant["key"] for variant in value]
        yield from check_distinct(keys, (f"{field}[{index}].key" for index in range(len(keys))))
        yield from check_weights([variant["weight"] for variant in value], field)


def _check_serves(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    if not served:
        if not isinstance(value, bool):
            yield Detail(field, DetailCode.INVALID_TYPE, "Must be true or false, because the flag has no variants.")
    elif not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be the key of a variant, because the flag has variants.")
    elif value not in served:
        yield Detail(field, DetailCode.UNKNOWN_REFERENCE, unknown_variant(value, served))
