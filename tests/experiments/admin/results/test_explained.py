"""How a figure comes about, from what `experiments.results.explanation` tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.admin.results.explained import Explained, Step, explained
from experiments.metrics.definition import Quantity
from tests.experiments.admin.results.made import CONVERSION, REVENUE

STEPS = [{"name": "events_of_the_name", "description": "Events named purchase.", "rows": 1_500, "users": 1_200}]
NONE = {"cap": None, "cappedUsers": 0, "denominatorSteps": None, "denominatorSum": None}


def told(definition: Any, **document: Any) -> Explained:
    return explained(definition, {"users": 10_000, "steps": STEPS, **NONE, **document})


def test_explanation__of_a_share__ends_in_its_value() -> None:
    found = told(CONVERSION, sum=1_134.0, value=0.1134)
    assert found.steps == [Step("Events named purchase.", "1,500", "1,200")]
    assert found.denominator == []
    assert found.sums == [
        ("Exposed users", "10,000"),
        ("Users who did it", "1,134"),
        ("That divided by the exposed users", "11.34 %"),
    ]


def test_explanation__with_a_cap__tells_whom_it_meets() -> None:
    found = told(REVENUE, cap=312.5, cappedUsers=12, sum=4_500.0, value=0.45)
    assert found.words.endswith("count as 312.50")
    assert ("Users above the cap of 312.50", "12") in found.sums
    assert found.sums[-2:] == [("Sum over all users", "4,500"), ("That divided by the exposed users", "0.4500")]


def test_explanation__of_a_ratio__has_two_lists_of_steps() -> None:
    ratio = replace(REVENUE, type="ratio", denominator=Quantity("visit"), cap_percentile=None)
    found = told(ratio, denominatorSteps=STEPS, denominatorSum=0.0, sum=4_500.0, value=None)
    assert found.denominator == found.steps
    assert found.sums[1:] == [
        ("Numerator, of all users", "4,500"),
        ("Denominator, of all users", "0"),
        ("Numerator divided by denominator", "\u2013"),
    ]
