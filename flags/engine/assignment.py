"""Who is in an experiment, and with which variant: alike for a rule of a flag and for whoever asks the experiment.

Not here: who was in it before and is remembered (`Context.assigned` says that), and what is recorded.
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
    """Why a user is not in an experiment and does not count."""

    FORCED = "forced"
    NOT_IN_GROUP = "not_in_group"
    NOT_TARGETED = "not_targeted"
    NOT_IN_TRAFFIC = "not_in_traffic"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The variant that a user sees, and why the user is not in the experiment; None where the user is in it."""

    variant: str
    exclusion: Exclusion | None = None


def compile_assignment(source: Mapping[str, Any]) -> Callable[[Context], Assigned]:
    """Return the function that assigns a user. It never raises.

    `source` has `experiment` (its key, which is the salt) and `variants` with key and weight, the control first; and it
    may have `percentage` (100), `conditions` (none), `group` with key, from and to in percent, and `forced`, variants
    by user id. Whoever is not taken in sees the control.
    """
    key = source["experiment"]
    weights = [(each["key"], each["weight"]) for each in source["variants"]]
    split = compile_split(weights, key)
    excluded_from = _compile_audience(source, key)
    forced = {user_id: Assigned(variant, Exclusion.FORCED) for user_id, variant in source.get("forced", {}).items()}
    taken_in = {variant: Assigned(variant) for variant, _ in weights}
    left_out = {each: Assigned(weights[0][0], each) for each in Exclusion}

    def assign(context: Context) -> Assigned:
        user_id = context.user_id
        if user_id in forced:
            return forced[user_id]
        known = context.assigned.get(key)
        if known is not None:
            return taken_in.get(known) or Assigned(known)
        exclusion = excluded_from(context)
        return left_out[exclusion] if exclusion else taken_in[split(user_id)]

    return assign


def compile_range(key: str, percentage: float, group: Mapping[str, Any] | None = None) -> Callable[[str], bool] | None:
    """Return the function to whether the hash takes in a user id: by the part of a group, and the percentage of it.

    None where it takes in everybody, so that nobody pays for a hash.
    """
    share = threshold(percentage)
    if share >= BUCKETS and group is None:
        return None
    if group is None:
        return lambda user_id: bucket(key, user_id) < share
    salt, start, end = group["key"], threshold(group["from"]), threshold(group["to"])
    return lambda user_id: start <= bucket(salt, user_id) < end and bucket(key, user_id) < share


def _compile_audience(source: Mapping[str, Any], key: str) -> Callable[[Context], Exclusion | None]:
    """Return the function to why a user is left out. What all users pass is not asked."""
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
