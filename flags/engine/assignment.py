"""Assign users to the variants of an experiment. Rules of flags and the Get Variant call use the same function.

Stored variants come from the caller, in `Context.assigned`. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flags.engine.bucketing import BUCKETS, bucket, compile_split, threshold
from flags.engine.conditions import compile_condition
from flags.engine.types import Context


class Exclusion(StrEnum):
    """Why an experiment does not count a user."""

    FORCED = "forced"
    NOT_IN_GROUP = "not_in_group"
    NOT_TARGETED = "not_targeted"
    NOT_IN_TRAFFIC = "not_in_traffic"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The variant that a user sees, and why the experiment does not count the user; None if it does."""

    variant: str
    exclusion: Exclusion | None = None


def compile_assignment(source: Mapping[str, Any]) -> Callable[[Context], Assigned]:
    """Return the function that assigns a user. The function never raises.

    `source` has `experiment` (its key, which is the salt) and `variants` with key and weight, the
    control first. It may have `percentage` (100), `conditions` (none), `group` with key, from and
    to in percent, and `forced`, the variants by user id. Users outside the audience see the
    control.
    """
    key = source["experiment"]
    weights = [(variant["key"], variant["weight"]) for variant in source["variants"]]
    split = compile_split(weights, key)
    find_exclusion = _compile_audience(source, key)
    forced = {user_id: Assigned(variant, Exclusion.FORCED) for user_id, variant in source.get("forced", {}).items()}
    included = {variant: Assigned(variant) for variant, _ in weights}
    excluded = {exclusion: Assigned(weights[0][0], exclusion) for exclusion in Exclusion}

    def assign(context: Context) -> Assigned:
        user_id = context.user_id
        if user_id in forced:
            return forced[user_id]
        stored = context.assigned.get(key)
        if stored is not None:
            return included.get(stored) or Assigned(stored)
        exclusion = find_exclusion(context)
        return excluded[exclusion] if exclusion else included[split(user_id)]

    return assign


def compile_range(key: str, percentage: float, group: Mapping[str, Any] | None = None) -> Callable[[str], bool] | None:
    """Return a function that tests whether a user id is in the group's range and in the percentage.

    Return None if every user id is, which saves computing the hash.
    """
    share = threshold(percentage)
    if share >= BUCKETS and group is None:
        return None
    if group is None:
        return lambda user_id: bucket(key, user_id) < share
    salt, start, end = group["key"], threshold(group["from"]), threshold(group["to"])
    return lambda user_id: start <= bucket(salt, user_id) < end and bucket(key, user_id) < share


def _compile_audience(source: Mapping[str, Any], key: str) -> Callable[[Context], Exclusion | None]:
    """Return a function that finds why a user is excluded, if so. Tests that all users pass are left out."""
    tests: list[tuple[Exclusion, Callable[[Context], bool]]] = []
    if group := source.get("group"):
        salt, start, end = group["key"], threshold(group["from"]), threshold(group["to"])
        tests.append((Exclusion.NOT_IN_GROUP, lambda context: start <= bucket(salt, context.user_id) < end))
    for condition in source.get("conditions", ()):
        tests.append((Exclusion.NOT_TARGETED, compile_condition(condition).test))
    share = threshold(source.get("percentage", 100))
    if share < BUCKETS:
        tests.append((Exclusion.NOT_IN_TRAFFIC, lambda context: bucket(key, context.user_id) < share))
    return lambda context: next((exclusion for exclusion, test in tests if not test(context)), None)
