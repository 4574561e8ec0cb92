"""Check the rule that an experiment writes into the flag that it drives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from config.errors import Detail, DetailCode
from flags.engine.types import RuleType
from flags.validation.conditions import check_conditions
from flags.validation.shapes import (
    MOST_VARIANTS,
    Check,
    check_choice,
    check_distinct,
    check_key,
    check_list,
    check_name,
    check_object,
    check_percentage,
    check_weight,
    check_weights,
    echo,
    unknown_variant,
    variant_keys,
)

MOST_FORCED = 1_000
_EXAMPLE = '{"key": "treatment", "weight": 50, "serves": true}'


def check_experiment_rule(rule: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept the rule of an experiment that drives a flag with variants of these keys, or without variants."""

    def check_variants(value: object, variants_field: str) -> Iterator[Detail]:
        return _check_variants(value, variants_field, variants)

    def check_forced_variants(value: object, forced_field: str) -> Iterator[Detail]:
        return check_forced(value, forced_field, variant_keys(rule.get("variants")) if isinstance(rule, dict) else ())

    checks: Mapping[str, Check] = {
        "type": _check_type,
        "experiment": check_key,
        "variants": check_variants,
        "percentage": check_percentage,
        "conditions": check_conditions,
        "group": check_group,
        "forced": check_forced_variants,
    }
    yield from check_object(rule, field, checks=checks, required=("type", "experiment", "variants"), example=_EXAMPLE)


def check_group(value: object, field: str) -> Iterator[Detail]:
    """Accept a part of a group of experiments: its key, and a range in percent, which does not include `to`."""
    return check_part(value, field, "key", check_key)


def check_part(value: object, field: str, name: str, check_salt: Check) -> Iterator[Detail]:
    """Accept a range of buckets in percent, and its salt, which has this name."""
    checks = {name: check_salt, "from": check_percentage, "to": check_percentage}
    example = f'{{"{name}": "checkout", "from": 0, "to": 50}}'
    details = list(check_object(value, field, checks=checks, required=checks, example=example))
    yield from details
    if not details and isinstance(value, dict) and value["from"] >= value["to"]:
        yield Detail(f"{field}.to", DetailCode.OUT_OF_RANGE, "Must be more than from.")


def check_forced(value: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept an object of variants by user id, of an experiment with variants of these keys."""
    if not isinstance(value, dict):
        yield Detail(
            field, DetailCode.INVALID_TYPE, 'Must be an object of variants by user id, such as {"qa-1": "green"}.'
        )
    elif len(value) > MOST_FORCED:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_FORCED:,} users.")
    else:
        for user_id, variant in value.items():
            user_field = f"{field}.{echo(user_id)}"
            yield from check_name(user_id, user_field)
            if not isinstance(variant, str):
                yield Detail(user_field, DetailCode.INVALID_TYPE, "Must be a string.")
            elif variant not in variants:
                message = unknown_variant(variant, variants, of="experiment")
                yield Detail(user_field, DetailCode.UNKNOWN_REFERENCE, message)


def _check_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[RuleType.EXPERIMENT.value])


def _check_variants(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    def check_serves(value: object, serves_field: str) -> Iterator[Detail]:
        return _check_serves(value, serves_field, served)

    def check_variant(variant: object, variant_field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "weight": check_weight, "serves": check_serves}
        return check_object(variant, variant_field, checks=checks, required=checks, example=_EXAMPLE)

    details = list(check_list(value, field, least=2, most=MOST_VARIANTS, noun="variants", check=check_variant))
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
