"""What the rule that an experiment writes may be: a check for each of its fields, and for what they say together.

Not here: what the rule means (`experiment_rules`), and whose it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from config.errors import Detail, DetailCode
from flags.engine.conditions import check_conditions
from flags.engine.shapes import (
    Check,
    check_choice,
    check_distinct,
    check_key,
    check_list,
    check_name,
    check_object,
    echo,
)
from flags.engine.shares import (
    MOST_VARIANTS,
    check_percentage,
    check_sum,
    check_weight,
    keys_of,
    unknown_variant,
)
from flags.engine.types import RuleType

MOST_FORCED = 1_000
_EXAMPLE = '{"key": "treatment", "weight": 50, "serves": true}'
_GROUP = '{"key": "checkout", "from": 0, "to": 50}'


def check_experiment_rule(rule: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Take the rule of an experiment that drives a flag with variants of these keys, or with none."""

    def check_variants(value: object, variants_field: str) -> Iterator[Detail]:
        return _check_variants(value, variants_field, variants)

    def check_forced_variants(value: object, forced_field: str) -> Iterator[Detail]:
        return check_forced(value, forced_field, keys_of(rule.get("variants")) if isinstance(rule, dict) else ())

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
    """Take a part of a group of experiments: its key, and the range in percent, `to` itself not included."""
    checks = {"key": check_key, "from": check_percentage, "to": check_percentage}
    found = list(check_object(value, field, checks=checks, required=checks, example=_GROUP))
    yield from found
    if not found and isinstance(value, dict) and value["from"] >= value["to"]:
        yield Detail(f"{field}.to", DetailCode.OUT_OF_RANGE, "Must be more than from.")


def check_forced(value: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Take an object of variants by user id, of an experiment with variants of these keys."""
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, 'Must be an object of variants by user id, as {"qa-1": "green"}.')
    elif len(value) > MOST_FORCED:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_FORCED:,} users.")
    else:
        for user_id, variant in value.items():
            at = f"{field}.{echo(user_id)}"
            yield from check_name(user_id, at)
            if not isinstance(variant, str):
                yield Detail(at, DetailCode.INVALID_TYPE, "Must be a string.")
            elif variant not in variants:
                yield Detail(at, DetailCode.UNKNOWN_REFERENCE, unknown_variant(variant, variants, of="experiment"))


def _check_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[RuleType.EXPERIMENT.value])


def _check_variants(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    def check_serves(value: object, serves_field: str) -> Iterator[Detail]:
        return _check_serves(value, serves_field, served)

    def check_variant(variant: object, variant_field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "weight": check_weight, "serves": check_serves}
        return check_object(variant, variant_field, checks=checks, required=checks, example=_EXAMPLE)

    found = list(check_list(value, field, least=2, most=MOST_VARIANTS, noun="variants", check=check_variant))
    yield from found
    if not found and isinstance(value, list):
        yield from check_distinct([each["key"] for each in value], (f"{field}[{at}].key" for at in range(len(value))))
        yield from check_sum([each["weight"] for each in value], field)


def _check_serves(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    if not served:
        if not isinstance(value, bool):
            yield Detail(field, DetailCode.INVALID_TYPE, "The flag has no variants; must be true or false.")
    elif not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be the key of a variant of the flag, which has some.")
    elif value not in served:
        yield Detail(field, DetailCode.UNKNOWN_REFERENCE, unknown_variant(value, served))
