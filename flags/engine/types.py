"""Compiled, immutable flags, rules and segments, and the contexts and answers of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property
from typing import Any, Protocol

from .timetable import NEVER, Times, Timetable, combine

Attributes = Mapping[str, object]
"""The attributes of a user by name, as decoded JSON of any type."""


class RuleType(StrEnum):
    """`type` of a rule: how it selects its audience."""

    PERCENTAGE = "percentage"
    ATTRIBUTE = "attribute"
    USERS = "users"
    SEGMENT = "segment"
    EXPERIMENT = "experiment"


class ValueType(StrEnum):
    """`type` of a flag: the JSON type of its variants' values."""

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
    """The experiment that a user takes part in, and the user's variant. It is recorded, but not part of the answer."""

    experiment: str
    variant: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An answer of a flag. Users share these objects, so they must not be changed.

    `answer`: its JSON, without `variant` and `value` if the flag has no variants.
    `outcome`: the key of the variant served or, without variants, `on` or `off`.
    `participation`: set if an experiment decided.
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
        """Return an answer. Flags without variants share a few objects."""
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
    """A user at one time, with the configuration to evaluate. It caches results that several flags need.

    `user_id`: 1 to 200 characters, or empty for an anonymous user, whom only `resolve` accepts. It is also the
    attribute `userId`, even if the caller sends another value for it.
    `now`: an aware datetime.
    `assigned`: the user's stored variants by experiment key, which users keep.
    """

    user_id: str
    attributes: Attributes
    configuration: Configuration
    now: datetime
    # A flag or segment on which several others depend is evaluated once.
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False)
    memberships: dict[str, bool] = field(default_factory=dict, repr=False)
    assigned: Mapping[str, str] = field(default_factory=dict)


Test = Callable[[Context], bool]
"""Returns whether the user passes. It never raises."""


class Step(Protocol):
    """A requirement of a rule: its data, for explanations, and the test compiled from it."""

    @property
    def test(self) -> Test: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule. It matches users who pass all `tests`, which are the tests of `steps`.

    `index`: its position among the rules of its flag.
    `is_split`: whether the answer depends on the hash.

    Rules are equal if their JSON is equal.
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
    """A compiled flag in one environment.

    `otherwise`: the answer if no rule matches. A flag that is off always answers `disabled`.
    `source`: the JSON it was compiled from.
    `is_fractional`: whether one of its numbers is not whole, for clients that have two types of numbers.
    `driver`: the key of the experiment whose rule it has. `experiments` contains it while the flag is on.
    `version`: the revision of its newest change in this environment.
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
    driver: str | None = field(compare=False, repr=False)
    version: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """A compiled segment: listed users and, if there are any `tests`, users who pass all of them."""

    key: str
    source: Mapping[str, Any] = field(repr=False)
    user_ids: frozenset[str] = field(compare=False, repr=False)
    steps: tuple[Step, ...] = field(compare=False, repr=False)
    tests: tuple[Test, ...] = field(compare=False, repr=False)
    times: Times = field(default=NEVER, compare=False, repr=False)


@dataclass(frozen=True)
class Configuration:
    """All flags of one environment and all segments, by key. `revision` is that of their newest change."""

    flags: Mapping[str, Flag]
    segments: Mapping[str, Segment]
    revision: int = 0

    @cached_property
    def client_visible(self) -> Mapping[str, Flag]:
        """The flags that keys of scope `client` may evaluate. The others still count as prerequisites."""
        visible = {key: flag for key, flag in self.flags.items() if flag.source.get("clientVisible", True)}
        return visible if len(visible) < len(self.flags) else self.flags

    @cached_property
    def schedule(self) -> Timetable:
        """When the configuration changes without an edit. It is computed on first use."""
        times = [flag.times for flag in self.flags.values()]
        return Timetable(combine([*times, *(segment.times for segment in self.segments.values())]))

    @cached_property
    def experiments(self) -> Mapping[str, frozenset[str]]:
        """The experiments that drive each flag or its prerequisites, by flag key. Flags without any are left out."""
        by_flag = {flag.key: flag.experiments for flag in self.flags.values() if flag.experiments}
        dependents = [flag for flag in self.flags.values() if flag.prerequisites] if by_flag else []
        is_growing = bool(dependents)
        while is_growing:
            is_growing = False
            for flag in dependents:
                own = by_flag.get(flag.key, frozenset())
                inherited = (by_flag.get(prerequisite.flag, ()) for prerequisite in flag.prerequisites)
                if not own.issuperset(experiments := own.union(*inherited)):
                    by_flag[flag.key] = experiments
                    is_growing = True
        return by_flag


def is_member(key: str, context: Context) -> bool:
    """Return whether the user is a member of the segment. A missing segment has no members."""
    cached = context.memberships.get(key)
    if cached is None:
        segment = context.configuration.segments.get(key)
        cached = context.memberships[key] = segment is not None and _has_member(segment, context)
    return cached


def _has_member(segment: Segment, context: Context) -> bool:
    if context.user_id in segment.user_ids:
        return True
    return bool(segment.tests) and all(test(context) for test in segment.tests)
