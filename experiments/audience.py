"""Whom an experiment takes in, and what it drives: share, conditions, group, testers, flag, checked for every door.

Pure. Whether the segments, the flag and the part of the group that they name can be had is for `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from config.errors import Detail, DetailCode
from flags.engine.bucketing import threshold
from flags.engine.conditions import check_conditions as check_conditions_of
from flags.engine.rule_checks import MOST_VARIANTS
from flags.engine.rule_checks import check_percentage as check_percentage_of
from flags.engine.shapes import check_key, check_name, check_object, echo

MOST_FORCED = 1_000
MOST_USERS = 2_000_000_000
_SHOWN = 5
_GROUP = '{"key": "checkout", "from": 0, "to": 50}'
_FLAG = '{"key": "new-checkout", "serves": {"control": "old", "treatment": "new"}}'


def check_percentage(percentage: Any) -> Iterator[Detail]:
    return check_percentage_of(percentage, "percentage")


def check_conditions(conditions: Any) -> Iterator[Detail]:
    return check_conditions_of(conditions, "conditions")


def check_group(group: Any) -> Iterator[Detail]:
    """Say what is wrong with a part of a group; None for an experiment of no group."""
    if group is None:
        return
    checks = {"key": check_key, "from": check_percentage_of, "to": check_percentage_of}
    found = list(check_object(group, "group", checks=checks, required=checks, example=_GROUP))
    yield from found
    if not found and threshold(group["from"]) >= threshold(group["to"]):
        yield Detail("group.to", DetailCode.OUT_OF_RANGE, "Must be above from.")


def check_planned_size(size: Any) -> Iterator[Detail]:
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, int):
        yield Detail("plannedSampleSize", DetailCode.INVALID_TYPE, "Must be a whole number.")
    elif not 1 <= size <= MOST_USERS:
        yield Detail("plannedSampleSize", DetailCode.OUT_OF_RANGE, f"Must be 1 to {MOST_USERS:,} users.")


def check_forced_variants(forced: Any, variants: Any) -> Iterator[Detail]:
    """Say what is wrong with variants by user id, given the variants that there are."""
    if not isinstance(forced, Mapping):
        message = 'Must be an object of variants by user id, as {"qa-1": "treatment"}.'
        yield Detail("forcedVariants", DetailCode.INVALID_TYPE, message)
    elif len(forced) > MOST_FORCED:
        yield Detail("forcedVariants", DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_FORCED:,} users.")
    else:
        keys = _keys_of(variants)
        for user_id, variant in forced.items():
            field = f"forcedVariants.{echo(user_id)}"
            yield from check_name(user_id, field)
            yield from _check_known(variant, field, keys)


def check_flag(flag: Any, variants: Any) -> Iterator[Detail]:
    """Say what is wrong with a flag to drive: its key, and what it serves for each of the variants that there are."""
    if flag is None:
        return

    def check_serves(serves: object, field: str) -> Iterator[Detail]:
        return _check_serves(serves, field, _keys_of(variants))

    checks = {"key": check_key, "serves": check_serves}
    yield from check_object(flag, "flag", checks=checks, required=checks, example=_FLAG)


def _check_serves(serves: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    if not isinstance(serves, Mapping):
        message = "Must be an object: for each variant, the key of a variant of the flag, or true or false."
        yield Detail(field, DetailCode.INVALID_TYPE, message)
        return
    for variant in variants:
        if variant not in serves:
            yield Detail(f"{field}.{variant}", DetailCode.REQUIRED, "Is missing; say what the flag serves for it.")
    for variant, served in serves.items():
        at = f"{field}.{echo(variant)}"
        if variant not in variants:
            yield Detail(at, DetailCode.UNKNOWN_REFERENCE, _unknown(variant, variants))
        elif isinstance(served, str):
            yield from check_key(served, at)
        elif not isinstance(served, bool):
            message = "Must be the key of a variant of the flag or, for a flag without variants, true or false."
            yield Detail(at, DetailCode.INVALID_TYPE, message)


def _check_known(variant: object, field: str, keys: Collection[str]) -> Iterator[Detail]:
    if not isinstance(variant, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif variant not in keys:
        yield Detail(field, DetailCode.UNKNOWN_REFERENCE, _unknown(variant, keys))


def _unknown(variant: str, keys: Collection[str]) -> str:
    known = ", ".join(islice(keys, _SHOWN)) or "none"
    more = ", ..." if len(keys) > _SHOWN else ""
    return f'The experiment has no variant "{echo(variant)}"; it has: {known}{more}.'


def _keys_of(variants: Any) -> list[str]:
    """Of what may be no variants at all, which others say."""
    entries = variants[:MOST_VARIANTS] if isinstance(variants, list) else ()
    keys = (entry.get("key") for entry in entries if isinstance(entry, Mapping))
    return [key for key in keys if isinstance(key, str)]
