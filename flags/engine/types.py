"""The words of the engine: flags, rules and segments as compiled, immutable values, and what an evaluation answers.

Not here: how they are read from JSON (`parsing`) and what they decide (`evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property
from typing import Any, Protocol

from flags.engine.timetable import NEVER, Times, Timetable, combine

Attributes = Mapping[str, object]
"""What a caller says about a user, as decoded JSON: str, bool, int, float, None, list or dict by name."""


class RuleType(StrEnum):
    """`type` of a rule: how it chooses its audience."""

    PERCENTAGE = "percentage"
    ATTRIBUTE = "attribute"
    USERS = "users"
    SEGMENT = "segment"
    EXPERIMENT = "experiment"


class ValueType(StrEnum):
    """`type` of a flag: what JSON the values of its variants are."""

    BOOLEAN = "boolean"
    STRING = "string"
    NUMBER = "number"
    OBJECT = "object"


class Reason(StrEnum):
    """`reason` of an evaluation."""

    DISABLED = "disabled"
    PREREQUISITE_FAILED = "prerequisite_failed"
    RULE_MATCH = "rule_match"
    NO_RULE_MATCH = "no_rule_match"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the values that a flag may have."""

    key: str
    value: object


@dataclass(frozen=True, slots=True)
class Participation:
    """That a user is in an experiment, and with which of its variants: what is recorded, and told to nobody."""

    experiment: str
    variant: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer for one user. Flags share their few answers between all users, so none of them may be changed.

    `answer` is the JSON of it; a flag without variants has no `variant` and no `value` there. `outcome` is the key of
    the variant served, or, where there are none, `on` or `off`. `participation` is that of a user for whom the
    experiment that drives the flag has decided.
    """

    enabled: bool
    reason: Reason
    served: Variant | None = None
    participation: Participation | None = None
    answer: Mapping[str, object] = field(init=False, compare=False, repr=False)
    outcome: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        answer: dict[str, object] = {"enabled": self.enabled, "reason": self.reason.value}
        if self.served is not None:
            answer |= {"variant": self.served.key, "value": self.served.value}
        object.__setattr__(self, "answer", answer)
        plain = "on" if self.enabled else "off"
        object.__setattr__(self, "outcome", self.served.key if self.served else plain)

    @classmethod
    def of(cls, enabled: bool, reason: Reason, served: Variant | None) -> Evaluation:
        """Return the answer; flags without variants, which most are, share a handful between them."""
        return _plain(enabled, reason) if served is None else cls(enabled, reason, served)

    @property
    def variant(self) -> str | None:
        return self.served.key if self.served else None

    @property
    def value(self) -> object:
        return self.served.value if self.served else None


@cache
def _plain(enabled: bool, reason: Reason) -> Evaluation:
    return Evaluation(enabled, reason)


@dataclass(slots=True)
class Context:
    """One user, asked about at one moment under one configuration. It also remembers what was found out on the way.

    `user_id` has 1 to 200 characters; it is also the attribute `userId`, whatever the caller sends under that name. An
    empty one stands for a user that nobody knows by name, whom only `resolution` can tell about.
    Attributes of any type are fine. `now` is aware. `assigned` has the variants that experiments have assigned to
    the user before, by their keys: these stay.
    """

    user_id: str
    attributes: Attributes
    configuration: Configuration
    now: datetime
    # A flag or segment that many ask for is worked out once.
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False)
    memberships: dict[str, bool] = field(default_factory=dict, repr=False)
    assigned: Mapping[str, str] = field(default_factory=dict)


Test = Callable[[Context], bool]
"""Whether the user passes. It never raises."""


class Step(Protocol):
    """One demand of a rule: facts that can be told, and the test compiled from them."""

    @property
    def test(self) -> Test: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """An audience, a share of it, and what it serves. A rule takes in whoever passes all its tests.

    `index` is its place among the rules of its flag. `is_split`: the hash has a say in who gets what. `tests` are those
    of `steps`, which tell in words what is tested; two rules are equal if they were read from equal JSON.
    """

    source: Mapping[str, Any]
    salt: str
    index: int = field(compare=False)
    is_split: bool = field(compare=False)
    times: Times = field(compare=False, repr=False)
    steps: tuple[Step, ...] = field(compare=False, repr=False)
    tests: tuple[Test, ...] = field(compare=False, repr=False)
    serve: Callable[[Context], Evaluation] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """Another flag that must be on for the user and, unless `variants` is empty, serve one of them."""

    flag: str
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as it stands in one environment, ready to evaluate.

    `otherwise` is the answer to whoever no rule takes in. Where a flag is off, `enabled` is false and only `disabled`
    is ever answered. `source` is what it was compiled from. `is_fractional`: it is of type number, and not all of its
    values are whole, which matters where numbers have two types. `experiments` are the keys of those that drive it.
    """

    key: str
    enabled: bool
    rules: tuple[Rule, ...]
    prerequisites: tuple[Prerequisite, ...]
    disabled: Evaluation
    prerequisite_failed: Evaluation
    otherwise: Evaluation
    source: Mapping[str, Any] = field(compare=False, repr=False)
    is_fractional: bool = field(compare=False)
    times: Times = field(compare=False, repr=False)
    experiments: frozenset[str] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """Users who belong together: those listed, and those who pass all `tests`, where there are any."""

    key: str
    source: Mapping[str, Any] = field(repr=False)
    user_ids: frozenset[str] = field(compare=False, repr=False)
    steps: tuple[Step, ...] = field(compare=False, repr=False)
    tests: tuple[Test, ...] = field(compare=False, repr=False)
    times: Times = field(default=NEVER, compare=False, repr=False)


@dataclass(frozen=True)
class Configuration:
    """All flags of one environment and all segments, by key, as they stand at one moment.

    `revision` is that of the newest change that bears on any of them.
    """

    flags: Mapping[str, Flag]
    segments: Mapping[str, Segment]
    revision: int = 0

    @cached_property
    def schedule(self) -> Timetable:
        """When it changes by itself, put together by the first who asks."""
        times = [flag.times for flag in self.flags.values()]
        return Timetable(combine([*times, *(segment.times for segment in self.segments.values())]))

    @cached_property
    def experiments(self) -> Mapping[str, frozenset[str]]:
        """By the key of a flag, the experiments that decide what it is, or what its prerequisites are.

        Flags for which none does, which most are, are not there.
        """
        found = {flag.key: flag.experiments for flag in self.flags.values() if flag.experiments}
        asking = [flag for flag in self.flags.values() if flag.prerequisites] if found else []
        is_growing = bool(asking)
        while is_growing:
            is_growing = False
            for flag in asking:
                own = found.get(flag.key, frozenset())
                if not own.issuperset(known := own.union(*(found.get(each.flag, ()) for each in flag.prerequisites))):
                    found[flag.key] = known
                    is_growing = True
        return found


def is_member(key: str, context: Context) -> bool:
    """Return whether the user is in the segment of this key. Nobody is in one that does not exist."""
    known = context.memberships.get(key)
    if known is None:
        segment = context.configuration.segments.get(key)
        known = context.memberships[key] = segment is not None and _holds(segment, context)
    return known


def _holds(segment: Segment, context: Context) -> bool:
    if context.user_id in segment.user_ids:
        return True
    return bool(segment.tests) and all(test(context) for test in segment.tests)
