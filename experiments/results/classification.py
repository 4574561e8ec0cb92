"""One exposure after the other, held against the hash and the configuration of its phase.

Pure: who reads them, and what else tells of their users, is for `assignments`.
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
"""User ids for each cause."""

Attributes = Mapping[str, Any] | None
Row = tuple[str, str, datetime, bool, int, bool, Attributes]
"""User id, variant, moment, whether this service assigned it, number of the phase, whether the user was seen in several
variants, and what was recorded of the user."""


class Cause(StrEnum):
    """Why an exposure is not what its phase gives, by the names in JSON; the first that holds is told."""

    SELF_REPORTED = "selfReported"
    FORCED = "forced"
    OTHER_PHASE = "otherPhase"
    OUTSIDE_AUDIENCE = "outsideAudience"
    CONDITIONS_NOT_MET = "conditionsNotMet"
    UNEXPLAINED = "unexplained"


WORDS = {
    Cause.SELF_REPORTED: "reported by clients or imported",
    Cause.FORCED: "of users who are or were forced",
    Cause.OTHER_PHASE: "as another phase gives it",
    Cause.OUTSIDE_AUDIENCE: "outside the group's range or the percentage",
    Cause.CONDITIONS_NOT_MET: "of users who do not meet the conditions",
    Cause.UNEXPLAINED: "for no cause that can be told",
}
"""What is said of the exposures that differ for this cause."""

ALARMING = frozenset({Cause.OUTSIDE_AUDIENCE, Cause.CONDITIONS_NOT_MET, Cause.UNEXPLAINED})
"""What this service never does by itself."""


@dataclass(frozen=True, slots=True)
class Design:
    """What the exposures of an experiment are judged by.

    `phases` as an experiment keeps them. `forced` are the users who are shown a variant now, `once_forced` those who
    ever were. Exposures count from `start` on, and until `stop`, if there is one.
    """

    key: str
    phases: Sequence[Mapping[str, Any]]
    start: datetime
    stop: datetime | None = None
    group: Mapping[str, Any] | None = None
    forced: Collection[str] = frozenset()
    once_forced: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Assignments:
    """What came of it: how many exposures there are, and which differ. `examples` are ids of a few users."""

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


NOBODY = Assignments(0, dict.fromkeys(Cause, 0), 0, 0, 0)

Fit = Callable[[str, str, datetime, Attributes], Cause | None]
"""Of user id, variant, moment and attributes: what does not fit a phase; None where all of it does."""


def compile_judge(design: Design) -> Callable[[Row], Cause | None]:
    """Return the function to why an exposure differs from what its phase gives; None for one that does not."""
    fits = [_compile_fit(design, each) for each in design.phases]
    by_number = dict(enumerate(fits, 1))
    forced, once_forced = frozenset(design.forced), frozenset(design.once_forced) | frozenset(design.forced)

    def judge(row: Row) -> Cause | None:
        user_id, variant, exposed_at, is_assigned, number, _, attributes = row
        fit = by_number.get(number)
        found = Cause.UNEXPLAINED if fit is None else fit(user_id, variant, exposed_at, attributes)
        if found is None and user_id not in forced:
            return None
        if not is_assigned:
            return Cause.SELF_REPORTED
        if user_id in once_forced:
            return Cause.FORCED
        if any(each(user_id, variant, exposed_at, attributes) is None for each in fits):
            return Cause.OTHER_PHASE
        return found

    return judge


def reads_attributes(design: Design) -> bool:
    """Whether any phase asks for something that exposures may have recorded."""
    return any(_can_be_judged(each) for phase in design.phases for each in phase["conditions"])


def _compile_fit(design: Design, phase: Mapping[str, Any]) -> Fit:
    key = design.key
    split = compile_split(((each["key"], each["weight"]) for each in phase["variants"]), key)
    is_in_range = compile_range(key, phase["percentage"], design.group)
    meets = _compile_conditions(phase["conditions"])

    def fit(user_id: str, variant: str, exposed_at: datetime, attributes: Attributes) -> Cause | None:
        if is_in_range is not None and not is_in_range(user_id):
            return Cause.OUTSIDE_AUDIENCE
        if meets is not None and attributes is not None and not meets(user_id, exposed_at, attributes):
            return Cause.CONDITIONS_NOT_MET
        return None if split(user_id) == variant else Cause.UNEXPLAINED

    return fit


def _compile_conditions(
    conditions: Sequence[Mapping[str, Any]],
) -> Callable[[str, datetime, Mapping[str, Any]], bool] | None:
    """Return whether a user meets the conditions, as far as they ask for what was recorded; None for no conditions."""
    tests = [(each["attribute"], compile_condition(each).test) for each in conditions if _can_be_judged(each)]
    if not tests:
        return None
    context: Context | None = None

    def meets(user_id: str, exposed_at: datetime, attributes: Mapping[str, Any]) -> bool:
        nonlocal context
        if context is None:  # one for all users: making them takes longer than most tests
            context = Context(user_id, attributes, Configuration(flags={}, segments={}), exposed_at)
        context.user_id, context.attributes, context.now = user_id, attributes, exposed_at
        return all(test(context) for name, test in tests if name in attributes or name == USER_ID)

    return meets


def _can_be_judged(condition: Mapping[str, Any]) -> bool:
    """Who belonged to a segment at that moment, no exposure tells."""
    return OPERATORS[condition["operator"]].needs_attribute and "attribute" in condition


class Tally:
    """Exposures as they are counted. Those that an event may yet explain are handed back, for whoever can look."""

    def __init__(self, design: Design) -> None:
        self._judge = compile_judge(design)
        self._start, self._stop = design.start, design.stop
        self._causes: Counter[Cause] = Counter()
        self._exposures = self._several = self._early = self._late = 0
        self._examples: dict[str, list[str]] = {}

    def add(self, rows: Iterable[Row]) -> list[tuple[Row, Cause]]:
        """Count these, and return those that were assigned and differ, which are not counted as such yet."""
        suspects: list[tuple[Row, Cause]] = []
        for row in rows:
            self._exposures += 1
            if (cause := self._judge(row)) is not None:
                if cause is Cause.SELF_REPORTED:
                    self.blame(cause, row[0])
                else:
                    suspects.append((row, cause))
            if row[5]:
                self._several += 1
                self._keep("inSeveralVariants", row[0])
            if row[2] < self._start:
                self._early += 1
                self._keep("beforeStart", row[0])
            elif self._stop is not None and row[2] > self._stop:
                self._late += 1
                self._keep("afterStop", row[0])
        return suspects

    def blame(self, cause: Cause, user_id: str) -> None:
        self._causes[cause] += 1
        self._keep(cause, user_id)

    def result(self) -> Assignments:
        return Assignments(
            exposures=self._exposures,
            causes={cause: self._causes[cause] for cause in Cause},
            in_several_variants=self._several,
            before_start=self._early,
            after_stop=self._late,
            examples=self._examples,
        )

    def _keep(self, name: str, user_id: str) -> None:
        examples = self._examples.setdefault(str(name), [])
        if len(examples) < MOST_EXAMPLES:
            examples.append(user_id)
