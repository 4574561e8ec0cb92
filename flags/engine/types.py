"""The words of the engine: flags, rules and conditions as compiled, immutable values, and what an evaluation answers.

Not here: how they are read from JSON (`parsing`) and what they decide (`evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Attributes = Mapping[str, object]
"""What a caller says about a user, as decoded JSON: str, bool, int, float, None, list or dict by name."""

Predicate = Callable[[object], bool]
"""Whether an attribute meets a condition. None stands for a missing attribute; a predicate never raises."""


class RuleType(StrEnum):
    """`type` of a rule: how it chooses its audience."""

    PERCENTAGE = "percentage"
    ATTRIBUTE = "attribute"
    USERS = "users"


class Reason(StrEnum):
    """`reason` of an evaluation."""

    DISABLED = "disabled"
    RULE_MATCH = "rule_match"
    NO_RULE_MATCH = "no_rule_match"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Condition:
    """One demand on one attribute. `matches` is operator and value, compiled."""

    attribute: str
    operator: str
    value: object
    matches: Predicate = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """An audience and a share of it.

    The audience is who meets all `conditions` and, unless `user_ids` is None, is one of them. The share is the users
    whose bucket, 0 to 99,999, is below `threshold`.
    """

    type: RuleType
    threshold: int
    conditions: tuple[Condition, ...] = ()
    user_ids: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as it stands in one environment, ready to evaluate. Its key is the salt of its rules."""

    key: str
    enabled: bool
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer for one user."""

    enabled: bool
    reason: Reason
