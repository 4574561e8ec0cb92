"""Why an exposure differs from what its phase gives: a table of rows, without a database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from experiments.results.classification import Cause, Design, Row, Tally, compile_classifier, reads_attributes
from flags.engine.bucketing import bucket, compile_split
from tests.conftest import NOON

EVEN = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]
ALL_GREEN = [{"key": "control", "weight": 0}, {"key": "green", "weight": 1}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
SPLIT = compile_split((("control", 1), ("green", 1)), "e")


def some_user(wanted: Any) -> str:
    return next(user for number in range(100_000) if wanted(user := f"user-{number}"))


CONTROL = some_user(lambda user: SPLIT(user) == "control")
GREEN = some_user(lambda user: SPLIT(user) == "green")
INSIDE = some_user(lambda user: bucket("g", user) < 50_000 and bucket("e", user) < 20_000 and SPLIT(user) == "control")
NOT_IN_GROUP = some_user(lambda user: bucket("g", user) >= 50_000 and bucket("e", user) < 20_000)
NOT_IN_TRAFFIC = some_user(lambda user: bucket("g", user) < 50_000 and bucket("e", user) >= 20_000)


def phase(
    variants: list[dict[str, Any]] = EVEN, percentage: float = 100, conditions: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"variants": variants, "percentage": percentage, "conditions": conditions or []}


def exposure(
    user_id: str,
    variant: str,
    *,
    at: datetime = NOON,
    is_assigned: bool = True,
    number: int = 1,
    is_several: bool = False,
    attributes: dict[str, Any] | None = None,
) -> Row:
    return (user_id, variant, at, is_assigned, number, is_several, attributes)


PLAIN = Design("e", [phase()], NOON)
TWO_PHASES = Design("e", [phase(), phase(ALL_GREEN)], NOON)
NARROW = Design("e", [phase(percentage=20)], NOON, group={"key": "g", "from": 0, "to": 50})
TARGETED = Design("e", [phase(conditions=[PRO])], NOON)
FORCING = Design("e", [phase()], NOON, forced=[CONTROL], once_forced=[CONTROL, GREEN])


@pytest.mark.parametrize(
    ("design", "row", "cause"),
    [
        (PLAIN, exposure(CONTROL, "control"), None),
        (PLAIN, exposure(GREEN, "green"), None),
        (PLAIN, exposure(CONTROL, "green"), Cause.UNEXPLAINED),
        (PLAIN, exposure(CONTROL, "purple"), Cause.UNEXPLAINED),
        (PLAIN, exposure(CONTROL, "green", is_assigned=False), Cause.SELF_REPORTED),
        (PLAIN, exposure(CONTROL, "control", is_assigned=False), None),
        (PLAIN, exposure(CONTROL, "purple", number=2), Cause.UNEXPLAINED),
        (PLAIN, exposure(CONTROL, "control", number=2), Cause.OTHER_PHASE),  # there is no second phase
        (TWO_PHASES, exposure(CONTROL, "control"), None),
        (TWO_PHASES, exposure(CONTROL, "green", number=2), None),
        (TWO_PHASES, exposure(CONTROL, "control", number=2), Cause.OTHER_PHASE),
        (TWO_PHASES, exposure(CONTROL, "green"), Cause.OTHER_PHASE),
        (TWO_PHASES, exposure(GREEN, "control", number=2), Cause.UNEXPLAINED),
        (NARROW, exposure(INSIDE, "control"), None),
        (NARROW, exposure(INSIDE, "green"), Cause.UNEXPLAINED),
        (NARROW, exposure(NOT_IN_GROUP, SPLIT(NOT_IN_GROUP)), Cause.OUTSIDE_AUDIENCE),
        (NARROW, exposure(NOT_IN_TRAFFIC, SPLIT(NOT_IN_TRAFFIC)), Cause.OUTSIDE_AUDIENCE),
        (NARROW, exposure(NOT_IN_TRAFFIC, "control", is_assigned=False), Cause.SELF_REPORTED),
        (TARGETED, exposure(CONTROL, "control", attributes={"plan": "pro"}), None),
        (TARGETED, exposure(CONTROL, "control", attributes={"plan": "free"}), Cause.CONDITIONS_NOT_MET),
        (TARGETED, exposure(CONTROL, "green", attributes={"plan": "pro"}), Cause.UNEXPLAINED),
        (TARGETED, exposure(CONTROL, "control", attributes={"country": "CH"}), None),  # the plan was not recorded
        (TARGETED, exposure(CONTROL, "control"), None),
        (FORCING, exposure(CONTROL, "control"), Cause.FORCED),
        (FORCING, exposure(CONTROL, "green"), Cause.FORCED),
        (FORCING, exposure(GREEN, "control"), Cause.FORCED),
        (FORCING, exposure(GREEN, "green"), None),  # no longer forced, and so exposed like any user
    ],
)
def test_classify__exposure__differs_for_the_first_cause_that_applies(
    design: Design, row: Row, cause: Cause | None
) -> None:
    assert compile_classifier(design)(row) is cause


def test_classify__condition_by_the_clock__is_evaluated_at_the_moment_of_the_exposure() -> None:
    recent = {"attribute": "since", "operator": "after", "value": "-7d"}
    classify = compile_classifier(Design("e", [phase(conditions=[recent])], NOON))
    since = {"since": "2026-01-30T12:00:00Z"}
    assert classify(exposure(CONTROL, "control", attributes=since)) is None
    late = exposure(CONTROL, "control", at=NOON + timedelta(days=7), attributes=since)
    assert classify(late) is Cause.CONDITIONS_NOT_MET


def test_classify__condition_on_a_segment__is_not_checked() -> None:
    design = Design("e", [phase(conditions=[{"operator": "inSegment", "value": "crowd"}])], NOON)
    assert not reads_attributes(design)
    assert reads_attributes(TARGETED)
    assert compile_classifier(design)(exposure(CONTROL, "control", attributes={"plan": "pro"})) is None


def test_tally__rows__are_counted_with_a_few_examples() -> None:
    hour = timedelta(hours=1)
    tally = Tally(Design("e", [phase()], NOON, stop=NOON + hour))
    rows = [exposure(f"user-{number}", SPLIT(f"user-{number}"), is_assigned=False) for number in range(20)]
    wrong = [exposure(f"w{number}", "purple", is_assigned=False, is_several=True) for number in range(7)]
    early, late = exposure(CONTROL, "control", at=NOON - hour), exposure(GREEN, "green", at=NOON + 2 * hour)
    assert tally.add([*rows, *wrong, early, late]) == []
    suspect = exposure(CONTROL, "green")
    assert tally.add([suspect]) == [(suspect, Cause.UNEXPLAINED)]
    tally.add_cause(Cause.UNEXPLAINED, CONTROL)

    audit = tally.result()
    assert (audit.exposures, audit.differing, audit.alarming) == (30, 8, 1)
    assert audit.share == 8 / 30
    assert audit.causes == {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 7, Cause.UNEXPLAINED: 1}
    assert (audit.in_several_variants, audit.before_start, audit.after_stop) == (7, 1, 1)
    assert audit.examples == {
        "selfReported": ["w0", "w1", "w2", "w3", "w4"],
        "inSeveralVariants": ["w0", "w1", "w2", "w3", "w4"],
        "beforeStart": [CONTROL],
        "afterStop": [GREEN],
        "unexplained": [CONTROL],
    }
