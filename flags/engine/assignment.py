"""Assign users to the variants of an experiment, for evaluations of flags and for Get Variant.

The caller passes stored variants in `Context.assigned`. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .bucketing import BUCKETS, bucket, compile_split, threshold
from .conditions import Condition, compile_condition
from .rules import Range, Share, compile_range_step, compile_share_step
from .types import Context, Step


class Exclusion(StrEnum):
    """Why a user does not take part in an experiment.

    The first three come from the flag that the experiment drives: see `participation`.
    """

    DISABLED = "disabled"
    PREREQUISITE_FAILED = "prerequisite_failed"
    SERVED_BY_RULE = "served_by_rule"
    FORCED = "forced"
    NOT_IN_GROUP = "not_in_group"
    NOT_TARGETED = "not_targeted"
    NOT_IN_TRAFFIC = "not_in_traffic"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The variant that a user sees. `exclusion` is None if the user takes part in the experiment."""

    variant: str
    exclusion: Exclusion | None = None

    @property
    def is_in_audience(self) -> bool:
        """Whether the rule of the experiment serves the user, which includes users with a forced variant."""
        return self.exclusion in (None, Exclusion.FORCED)


def compile_assignment(source: Mapping[str, Any]) -> Callable[[Context], Assigned]:
    """Return the function that assigns a user. It never raises.

    Users outside the audience see the control. `source` has these fields:

    `experiment`: the key, which is also the salt.
    `variants`: key and weight of each, the control first.
    `percentage`: 100 by default.
    `conditions`: none by default.
    `group`: optional, with key, from and to in percent.
    `forced`: optional, variants by user id.
    """
    key = source["experiment"]
    weights = [(variant["key"], variant["weight"]) for variant in source["variants"]]
    split = compile_split(weights, key)
    tests = [(_EXCLUSIONS[type(step)], step.test) for step in compile_audience(source)]
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
        for exclusion, test in tests:
            if not test(context):
                return excluded[exclusion]
        return included[split(user_id)]

    return assign


def compile_range(key: str, percentage: float, group: Mapping[str, Any] | None = None) -> Callable[[str], bool] | None:
    """Return a function that tests whether a user id is in the group's range and in the percentage.

    Return None if all users are, so that no hash is computed.
    """
    share = threshold(percentage)
    if share >= BUCKETS and group is None:
        return None
    if group is None:
        return lambda user_id: bucket(key, user_id) < share
    salt, start, end = group["key"], threshold(group["from"]), threshold(group["to"])
    return lambda user_id: start <= bucket(salt, user_id) < end and bucket(key, user_id) < share


def compile_audience(source: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the tests of the audience, in order: group, conditions and percentage."""
    group, percentage = source.get("group"), source.get("percentage", 100)
    return (
        *([compile_range_step(group["key"], group["from"], group["to"])] if group else ()),
        *map(compile_condition, source.get("conditions", ())),
        *([compile_share_step({"percentage": percentage}, source["experiment"])] if percentage != 100 else ()),
    )


_EXCLUSIONS: Mapping[type[Step], Exclusion] = {
    Range: Exclusion.NOT_IN_GROUP,
    Condition: Exclusion.NOT_TARGETED,
    Share: Exclusion.NOT_IN_TRAFFIC,
}
