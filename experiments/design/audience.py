"""The checks of an experiment's audience, forced variants and flag. Pure.

Whether the segments and the flag exist, and whether the part of the group is free, is checked in
`segment_refs`, `groups` and `experiments.lifecycle.flag_rule`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode
from flags.validation.conditions import check_conditions as check_conditions_of
from flags.validation.experiment_rule import check_forced
from flags.validation.experiment_rule import check_group as check_group_of
from flags.validation.rules import MOST_RULES
from flags.validation.shapes import check_key, check_object, echo, unknown_variant, variant_keys
from flags.validation.shapes import check_percentage as check_percentage_of

_FLAG = '{"key": "new-checkout", "serves": {"control": "old", "treatment": "new"}}'


def check_percentage(percentage: Any) -> Iterator[Detail]:
    return check_percentage_of(percentage, "percentage")


def check_conditions(conditions: Any) -> Iterator[Detail]:
    return check_conditions_of(conditions, "conditions")


def check_group(group: Any) -> Iterator[Detail]:
    """Yield what is wrong with a part of a group; None is an experiment without a group."""
    return iter(()) if group is None else check_group_of(group, "group")


def check_salts(key: str, group: Any) -> Iterator[Detail]:
    """Check that the group's key differs from the experiment's, because both are salts.

    With the same salt, the group would select the same users as the percentage does.
    """
    if isinstance(group, Mapping) and group.get("key") == key:
        message = "Must differ from the experiment's key: both are salts, so the percentage would select other users."
        yield Detail("group.key", DetailCode.INVALID_VALUE, message)


def check_forced_variants(forced: Any, variants: Any) -> Iterator[Detail]:
    """Yield what is wrong with forced variants by user id, given the experiment's variants."""
    return check_forced(forced, "forcedVariants", variant_keys(variants))


def check_flag(flag: Any, variants: Any) -> Iterator[Detail]:
    """Yield what is wrong with a flag to drive: its key, and what it serves for each variant.

    The position is where its rule is inserted. `experiments.lifecycle.flag_rule` compares it with the
    number of the flag's rules.
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
    elif not 0 <= position <= MOST_RULES:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from 0 to {MOST_RULES}; 0 is before all other rules.")


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
