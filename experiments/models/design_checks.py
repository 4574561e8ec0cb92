"""The checks of an experiment's design: variants, metrics, audience, forced variants and flag. Pure.

`models.plan` checks the plan. `experiments.lifecycle` checks what needs the database: whether segments and the flag
exist, and whether the part of the group is free.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode
from config.slugs import NAME_LENGTH, check_description
from experiments.models.plan import check_plan
from flags.validation.conditions import check_conditions as check_conditions_of
from flags.validation.rules import MAX_RULES, check_forced
from flags.validation.rules import check_group as check_group_of
from flags.validation.shapes import MAX_WEIGHT, check_key, check_object, echo, unknown_variant, variant_keys
from flags.validation.shapes import check_percentage as check_percentage_of

MAX_VARIANTS = 50
MAX_METRICS = 50
_VARIANT_FIELDS = ("key", "weight")


def check_design(design: Mapping[str, Any]) -> list[Detail]:
    """Return every problem of a design: all properties of an experiment except its key."""
    variants = design["variants"]
    return [
        *check_description(design["description"]),
        *check_variants(variants),
        *(check_weights_of_flag(variants) if design["flag"] else ()),
        *check_metrics(design["metrics"]),
        *check_percentage(design["percentage"]),
        *check_conditions(design["conditions"]),
        *check_group(design["group"]),
        *check_forced_variants(design["forced_variants"], variants),
        *check_flag(design["flag"], variants),
        *check_plan(design),
    ]


def check_variants(variants: Any) -> Iterator[Detail]:
    """Check variants: two or more with distinct keys, and at least one weight above 0."""
    if not isinstance(variants, list):
        yield Detail("variants", DetailCode.INVALID_TYPE, "Must be an array of objects with key and weight.")
        return
    if not 2 <= len(variants) <= MAX_VARIANTS:
        message = f"Must have 2 to {MAX_VARIANTS} variants; the first is the control."
        yield Detail("variants", DetailCode.OUT_OF_RANGE, message)
    seen: set[str] = set()
    for index, variant in enumerate(variants[: MAX_VARIANTS + 1]):
        yield from _check_variant(variant, f"variants[{index}]", seen)
    if variants and all(_weight(variant) == 0 for variant in variants):
        yield Detail("variants", DetailCode.OUT_OF_RANGE, "Must have a weight above 0 for at least one variant.")


def _check_variant(variant: Any, field: str, seen: set[str]) -> Iterator[Detail]:
    if not isinstance(variant, Mapping):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be an object with key and weight.")
        return
    for name in variant:
        if name not in _VARIANT_FIELDS:
            yield Detail(f"{field}.{str(name)[:50]}", DetailCode.UNKNOWN_FIELD, "Unknown field; use key, weight.")
    for name in _VARIANT_FIELDS:
        if name not in variant:
            yield Detail(f"{field}.{name}", DetailCode.REQUIRED, "Is missing; add it.")
    if "key" in variant:
        yield from _check_variant_key(variant["key"], f"{field}.key", seen)
    if "weight" in variant:
        yield from _check_weight(variant["weight"], f"{field}.weight")


def _check_variant_key(key: Any, field: str, seen: set[str]) -> Iterator[Detail]:
    yield from check_key(key, field)
    if not isinstance(key, str):
        return
    if key in seen:
        yield Detail(field, DetailCode.DUPLICATE, "Must differ from the keys of the other variants.")
    seen.add(key)


def _check_weight(weight: Any, field: str) -> Iterator[Detail]:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    elif not math.isfinite(weight) or weight < 0:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be 0 or more.")


def check_weights_of_flag(variants: Any) -> Iterator[Detail]:
    """Check that no weight is too large for the rule of a flag. `check_variants` checks the rest."""
    for index, variant in enumerate(variants[:MAX_VARIANTS] if isinstance(variants, list) else ()):
        weight = _weight(variant)
        if isinstance(weight, (int, float)) and MAX_WEIGHT < weight < math.inf:
            message = f"Must be from 0 to {MAX_WEIGHT:,} in an experiment that drives a flag."
            yield Detail(f"variants[{index}].weight", DetailCode.OUT_OF_RANGE, message)


def _weight(variant: Any) -> Any:
    return variant.get("weight") if isinstance(variant, Mapping) else None


def check_metrics(metrics: Any) -> Iterator[Detail]:
    """Check that metrics are distinct names."""
    if not isinstance(metrics, list):
        yield Detail("metrics", DetailCode.INVALID_TYPE, "Must be an array of strings.")
        return
    if len(metrics) > MAX_METRICS:
        yield Detail("metrics", DetailCode.OUT_OF_RANGE, f"Must have at most {MAX_METRICS} names.")
    seen: set[str] = set()
    for index, name in enumerate(metrics[: MAX_METRICS + 1]):
        field = f"metrics[{index}]"
        if not isinstance(name, str):
            yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
            continue
        if not name:
            yield Detail(field, DetailCode.OUT_OF_RANGE, "Must not be empty.")
        if len(name) > NAME_LENGTH:
            yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
        if name in seen:
            yield Detail(field, DetailCode.DUPLICATE, "Must appear only once.")
        seen.add(name)


_FLAG = '{"key": "new-checkout", "serves": {"control": "old", "treatment": "new"}}'


def check_percentage(percentage: Any) -> Iterator[Detail]:
    return check_percentage_of(percentage, "percentage")


def check_conditions(conditions: Any) -> Iterator[Detail]:
    return check_conditions_of(conditions, "conditions")


def check_group(group: Any) -> Iterator[Detail]:
    """Check a part of a group. None is an experiment without a group."""
    return iter(()) if group is None else check_group_of(group, "group")


def check_salts(key: str, group: Any) -> Iterator[Detail]:
    """Check that the key of the group differs from the key of the experiment.

    Both are salts. Equal salts would select the same users by the group as by the percentage.
    """
    if isinstance(group, Mapping) and group.get("key") == key:
        message = "Must differ from the experiment's key: both are salts, so the percentage would select other users."
        yield Detail("group.key", DetailCode.INVALID_VALUE, message)


def check_forced_variants(forced: Any, variants: Any) -> Iterator[Detail]:
    """Check forced variants by user id."""
    return check_forced(forced, "forcedVariants", variant_keys(variants))


def check_flag(flag: Any, variants: Any) -> Iterator[Detail]:
    """Check a flag to drive: its key, its position, and what it serves for each variant.

    `lifecycle.flag_rule` compares the position with the number of rules.
    """
    if flag is None:
        return

    def check_serves(serves: object, field: str) -> Iterator[Detail]:
        return _check_serves(serves, field, variant_keys(variants))

    checks = {"key": check_key, "serves": check_serves, "position": _check_position}
    yield from check_object(flag, "flag", checks=checks, required=("key", "serves"), example=_FLAG)


def _check_position(position: object, field: str) -> Iterator[Detail]:
    if type(position) is not int:
        message = "Must be a whole number, such as 0, which is before all other rules of the flag."
        yield Detail(field, DetailCode.INVALID_TYPE, message)
    elif not 0 <= position <= MAX_RULES:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from 0 to {MAX_RULES}; 0 is before all other rules.")


def _check_serves(serves: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    if not isinstance(serves, Mapping):
        message = "Must be an object: for each variant, the key of a variant of the flag, or true or false."
        yield Detail(field, DetailCode.INVALID_TYPE, message)
        return
    for variant in variants:
        if variant not in serves:
            message = "Is missing; add what the flag serves for this variant."
            yield Detail(f"{field}.{variant}", DetailCode.REQUIRED, message)
    for variant, served in serves.items():
        path = f"{field}.{echo(variant)}"
        if variant not in variants:
            yield Detail(path, DetailCode.UNKNOWN_REFERENCE, unknown_variant(variant, variants, of="experiment"))
        elif isinstance(served, str):
            yield from check_key(served, path)
        elif not isinstance(served, bool):
            message = "Must be the key of a variant of the flag or, for a flag without variants, true or false."
            yield Detail(path, DetailCode.INVALID_TYPE, message)
