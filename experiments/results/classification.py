"""Classifying exposures: whether each is what the hash and the configuration of its phase give, and if not, why.

This module reads no database; `assignment_audit` reads the exposures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from flags.engine.assignment import compile_range
from flags.engine.bucketing import compile_split
from flags.engine.conditions import USER_ID, compile_condition
from flags.engine.operators import OPERATORS
from flags.engine.types import Configuration, Context

MOST_EXAMPLES = 5
"""The maximum number of user ids for each cause."""

Attributes = Mapping[str, Any] | None
Row = tuple[str, str, datetime, bool, int, bool, Attributes]
"""User id, variant, moment, whether this service assigned the variant, number of the phase, whether the
user was seen in several variants, and the recorded attributes."""


class Cause(StrEnum):
    """Why an exposure differs from what its phase gives, by the names in JSON. The first cause that applies counts."""

    SELF_REPORTED = "selfReported"
    FORCED = "forced"
    OTHER_PHASE = "otherPhase"
    OUTSIDE_AUDIENCE = "outsideAudience"
    CONDITIONS_NOT_MET = "conditionsNotMet"
    UNEXPLAINED = "unexplained"


WORDS = {
    Cause.SELF_REPORTED: "reported by clients or imported",
    Cause.FORCED: "of users who are or were forced",
    Cause.OTHER_PHASE: "but match another phase",
    Cause.OUTSIDE_AUDIENCE: "outside the group's range or the percentage",
    Cause.CONDITIONS_NOT_MET: "of users who do not meet the conditions",
    Cause.UNEXPLAINED: "for no known cause",
}
"""The description of the exposures that differ for each cause."""

ALARMING = frozenset({Cause.OUTSIDE_AUDIENCE, Cause.CONDITIONS_NOT_MET, Cause.UNEXPLAINED})
"""The causes that this service never produces by itself."""


@dataclass(frozen=True, slots=True)
class Design:
    """What the exposures of an experiment are compared with.

    `phases` are in the form that an experiment stores. `forced` are the users with a forced variant now, and
    `once_forced` those who ever had one. Exposures count from `start` until `stop`, if there is one.
    """

    key: str
    phases: Sequence[Mapping[str, Any]]
    start: datetime
    stop: datetime | None = None
    group: Mapping[str, Any] | None = None
    forced: Collection[str] = frozenset()
    once_forced: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AssignmentAudit:
    """How many exposures there are, and how many differ for each cause. `examples` are ids of a few users."""

    exposures: int
    causes: Mapping[Cause, int]
    in_several_variants: int
    before_start: int
    after_stop: int
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    @property
    def differing(self) -> int:
        return sum(self.causes.values())

    @property
    def share(self) -> float:
        return self.differing / self.exposures if self.exposures else 0.0

    @property
    def alarming(self) -> int:
        return sum(self.causes[cause] for cause in ALARMING)


NO_EXPOSURES = AssignmentAudit(0, dict.fromkeys(Cause, 0), 0, 0, 0)

PhaseCheck = Callable[[str, str, datetime, Attributes], Cause | None]
"""Given user id, variant, moment and attributes, why an exposure differs from a phase. None if it does not differ."""


def compile_classifier(design: Design) -> Callable[[Row], Cause | None]:
    """Return a function that returns why an exposure differs from what its phase gives, or None if it does not."""
    checks = [_compile_phase_check(design, phase) for phase in design.phases]
    by_number = dict(enumerate(checks, 1))
    forced, once_forced = frozenset(design.forced), frozenset(design.once_forced) | frozenset(design.forced)

    def classify(row: Row) -> Cause | None:
        user_id, variant, exposed_at, is_assigned, number, _, attributes = row
        check = by_number.get(number)
        cause = Cause.UNEXPLAINED if check is None else check(user_id, variant, exposed_at, attributes)
        if cause is None and user_id not in forced:
            return None
        if not is_assigned:
            return Cause.SELF_REPORTED
        if user_id in once_forced:
            return Cause.FORCED
        if any(of_phase(user_id, variant, exposed_at, attributes) is None for of_phase in checks):
            return Cause.OTHER_PHASE
        return cause

    return classify


def reads_attributes(design: Design) -> bool:
    """Return whether any phase has a condition on attributes that exposures may have recorded."""
    return any(_can_be_checked(condition) for phase in design.phases for condition in phase["conditions"])


def _compile_phase_check(design: Design, phase: Mapping[str, Any]) -> PhaseCheck:
    key = design.key
    split = compile_split(((variant["key"], variant["weight"]) for variant in phase["variants"]), key)
    is_in_range = compile_range(key, phase["percentage"], design.group)
    meets = _compile_conditions(phase["conditions"])

    def check(user_id: str, variant: str, exposed_at: datetime, attributes: Attributes) -> Cause | None:
        if is_in_range is not None and not is_in_range(user_id):
            return Cause.OUTSIDE_AUDIENCE
        if meets is not None and attributes is not None and not meets(user_id, exposed_at, attributes):
            return Cause.CONDITIONS_NOT_MET
        return None if split(user_id) == variant else Cause.UNEXPLAINED

    return check


def _compile_conditions(
    conditions: Sequence[Mapping[str, Any]],
) -> Callable[[str, datetime, Mapping[str, Any]], bool] | None:
    """Return a function that tests the conditions on recorded attributes, or None without such conditions."""
    tests = [
        (condition["attribute"], compile_condition(condition).test)
        for condition in conditions
        if _can_be_checked(condition)
    ]
    if not tests:
        return None
    context: Context | None = None

    def meets(user_id: str, exposed_at: datetime, attributes: Mapping[str, Any]) -> bool:
        nonlocal context
        if context is None:  # one for all users, because creating a context takes longer than most tests
            context = Context(user_id, attributes, Configuration(flags={}, segments={}), exposed_at)
        context.user_id, context.attributes, context.now = user_id, attributes, exposed_at
        return all(test(context) for name, test in tests if name in attributes or name == USER_ID)

    return meets


def _can_be_checked(condition: Mapping[str, Any]) -> bool:
    """Return whether exposures may have recorded what the condition needs. They do not record segments."""
    return OPERATORS[condition["operator"]].needs_attribute and "attribute" in condition


class Tally:
    """Counts of exposures by cause."""

    def __init__(self, design: Design) -> None:
        self._classify = compile_classifier(design)
        self._start, self._stop = design.start, design.stop
        self._causes: Counter[Cause] = Counter()
        self._exposures = self._several = self._early = self._late = 0
        self._examples: dict[str, list[str]] = {}

    def add(self, rows: Iterable[Row]) -> list[tuple[Row, Cause]]:
        """Count these exposures, and return those that were assigned and differ.

        Their cause is not counted yet, because reports of events may explain them. Pass it to `add_cause`.
        """
        suspects: list[tuple[Row, Cause]] = []
        for row in rows:
            self._exposures += 1
            if (cause := self._classify(row)) is not None:
                if cause is Cause.SELF_REPORTED:
                    self.add_cause(cause, row[0])
                else:
                    suspects.append((row, cause))
            if row[5]:
                self._several += 1
                self._add_example("inSeveralVariants", row[0])
            if row[2] < self._start:
                self._early += 1
                self._add_example("beforeStart", row[0])
            elif self._stop is not None and row[2] > self._stop:
                self._late += 1
                self._add_example("afterStop", row[0])
        return suspects

    def add_cause(self, cause: Cause, user_id: str) -> None:
        self._causes[cause] += 1
        self._add_example(cause, user_id)

    def result(self) -> AssignmentAudit:
        return AssignmentAudit(
            exposures=self._exposures,
            causes={cause: self._causes[cause] for cause in Cause},
            in_several_variants=self._several,
            before_start=self._early,
            after_stop=self._late,
            examples=self._examples,
        )

    def _add_example(self, name: str, user_id: str) -> None:
        examples = self._examples.setdefault(str(name), [])
        if len(examples) < MOST_EXAMPLES:
            examples.append(user_id)
