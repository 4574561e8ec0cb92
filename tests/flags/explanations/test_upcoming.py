"""What rules will do without an edit, in words. The evaluator confirms each time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from flags.explanations.upcoming import upcoming_steps
from tests.conftest import NOON

DAY = timedelta(days=1)
UNTIL = NOON + 14 * DAY


def at(days: float) -> str:
    return (NOON + days * DAY).isoformat().replace("+00:00", "Z")


def rule(**fields: Any) -> dict[str, Any]:
    return {"type": "percentage", "percentage": 25, **fields}


def ramp(*steps: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"at": at(days), "percentage": percentage} for days, percentage in steps]


def test_steps__of_rules__are_what_happens_in_the_two_weeks() -> None:
    for rules, expected in [
        ([], []),
        ([rule()], []),
        ([rule(startAt=at(1))], [(1, "rule 1 starts: 25 % of everyone")]),
        ([rule(), rule(endAt=at(2), name="Colleagues")], [(2, "Colleagues ends")]),
        (
            [rule(startAt=at(1), endAt=at(3))],
            [(1, "rule 1 starts: 25 % of everyone until 3 Feb 2026, 12:00 UTC"), (3, "rule 1 ends")],
        ),
        (
            [rule(ramp=ramp((-1, 10), (1, 50), (2, 100), (20, 0)))],
            [(1, "rule 1 goes to 50 %"), (2, "rule 1 goes to 100 %")],
        ),
        ([rule(startAt=at(-2), endAt=at(-1))], []),
        ([rule(startAt=at(14)), rule(startAt=at(14.1))], [(14, "rule 1 starts: 25 % of everyone")]),
        ([rule(startAt=at(0))], []),
        ([rule(startAt=at(1), enabled=False)], []),
        # A ramp goes on while its rule is not in force, and nobody sees it.
        ([rule(ramp=ramp((1, 50), (3, 75)), endAt=at(2))], [(1, "rule 1 goes to 50 %"), (2, "rule 1 ends")]),
        ([rule(ramp=ramp((-3, 5), (1, 50), (3, 75)), startAt=at(2))], [(2, None), (3, "rule 1 goes to 75 %")]),
    ]:
        steps = sorted(upcoming_steps(rules, NOON, UNTIL))
        assert [moment for moment, _ in steps] == [_moment(days) for days, _ in expected], rules
        assert all(words in (None, found) for (_, words), (_, found) in zip(expected, steps, strict=True)), rules


def _moment(days: float) -> datetime:
    return NOON + days * DAY
