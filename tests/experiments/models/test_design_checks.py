"""The checks of an experiment's audience and flag: valid values, and the fields of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.lifecycle.changes import new_design
from experiments.models.design_checks import check_design
from flags.validation.rules import MAX_FORCED

VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]
SERVES = {"control": "old", "green": "new"}


def problems(**values: Any) -> list[tuple[str, str]]:
    details = check_design({**new_design(), "variants": VARIANTS, **values})
    return [(detail.field, str(detail.code)) for detail in details]


def test_check__what_may_be__is_found_right(subtests: pytest.Subtests) -> None:
    for values in [
        {},
        {"percentage": 0},
        {"percentage": 12.345},
        {"conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]},
        {"group": {"key": "checkout", "from": 0, "to": 100}},
        {"group": {"key": "checkout", "from": 99.999, "to": 100}},
        {"forced_variants": {"qa-1": "green", "🙂": "control"}},
        {"forced_variants": {f"u{at}": "green" for at in range(MAX_FORCED)}},
        {"flag": {"key": "f", "serves": SERVES}},
        {"flag": {"key": "f", "serves": {"control": False, "green": True}}},
        {"planned_size": 1},
        {"planned_size": 2_000_000_000},
    ]:
        with subtests.test(values=values):
            assert problems(**values) == []


def test_check__what_may_not_be__is_named_by_the_callers_field(subtests: pytest.Subtests) -> None:
    for values, found in [
        ({"percentage": 100.001}, [("percentage", "out_of_range")]),
        ({"percentage": -1}, [("percentage", "out_of_range")]),
        ({"percentage": 0.0001}, [("percentage", "invalid_value")]),
        ({"percentage": True}, [("percentage", "invalid_type")]),
        ({"percentage": "10"}, [("percentage", "invalid_type")]),
        ({"percentage": float("nan")}, [("percentage", "out_of_range")]),
        ({"conditions": {}}, [("conditions", "invalid_type")]),
        (
            {"conditions": [{"attribute": "plan", "operator": "is", "value": "pro"}]},
            [("conditions[0].operator", "invalid_value")],
        ),
        ({"group": "checkout"}, [("group", "invalid_type")]),
        ({"group": {"key": "a b", "from": 0}}, [("group.to", "required"), ("group.key", "invalid_value")]),
        ({"group": {"key": "g", "from": 50, "to": 50}}, [("group.to", "out_of_range")]),
        ({"group": {"key": "g", "from": 60, "to": 50}}, [("group.to", "out_of_range")]),
        ({"group": {"key": "g", "from": 0, "to": 0.0005}}, [("group.to", "invalid_value")]),
        ({"group": {"key": "g", "from": 0, "to": 50, "share": 1}}, [("group.share", "unknown_field")]),
        ({"forced_variants": ["qa-1"]}, [("forcedVariants", "invalid_type")]),
        ({"forced_variants": {"qa-1": "blue"}}, [("forcedVariants.qa-1", "unknown_reference")]),
        ({"forced_variants": {"qa-1": 1}}, [("forcedVariants.qa-1", "invalid_type")]),
        ({"forced_variants": {"": "green"}}, [("forcedVariants.", "invalid_value")]),
        ({"forced_variants": {"u" * 201: "green"}}, [(f"forcedVariants.{'u' * 50}", "too_long")]),
        ({"forced_variants": {f"u{at}": "green" for at in range(1001)}}, [("forcedVariants", "out_of_range")]),
        ({"flag": "f"}, [("flag", "invalid_type")]),
        ({"flag": {"key": "f"}}, [("flag.serves", "required")]),
        ({"flag": {"key": "f", "serves": []}}, [("flag.serves", "invalid_type")]),
        ({"flag": {"key": "f", "serves": {"control": "old"}}}, [("flag.serves.green", "required")]),
        ({"flag": {"key": "f", "serves": {**SERVES, "blue": "x"}}}, [("flag.serves.blue", "unknown_reference")]),
        ({"flag": {"key": "f", "serves": {**SERVES, "green": 1}}}, [("flag.serves.green", "invalid_type")]),
        ({"flag": {"key": "f", "serves": {**SERVES, "green": "a b"}}}, [("flag.serves.green", "invalid_value")]),
        ({"planned_size": 0}, [("plannedSampleSize", "out_of_range")]),
        ({"planned_size": 2_000_000_001}, [("plannedSampleSize", "out_of_range")]),
        ({"planned_size": 10.5}, [("plannedSampleSize", "invalid_type")]),
        ({"planned_size": True}, [("plannedSampleSize", "invalid_type")]),
    ]:
        with subtests.test(values=values):
            assert problems(**values) == found


@pytest.mark.parametrize(
    ("weight", "found"),
    [
        (10**9, []),
        (10**9 + 0.5, [("variants[1].weight", "out_of_range")]),
        (10**30, [("variants[1].weight", "out_of_range")]),
        (float("inf"), [("variants[1].weight", "out_of_range")]),
        ("many", [("variants[1].weight", "invalid_type")]),
    ],
)
def test_check__weights_with_a_flag__are_such_as_its_rules_may_have(weight: Any, found: list[tuple[str, str]]) -> None:
    variants = [VARIANTS[0], {"key": "green", "weight": weight}]
    assert problems(variants=variants, flag={"key": "f", "serves": SERVES}) == found
    assert problems(variants=variants) == [detail for detail in found if weight in (float("inf"), "many")]


@pytest.mark.parametrize("variants", [None, [1, None], [{"weight": 1}, {"key": 5}]])
def test_check__variants_that_are_none__are_no_reason_to_fail(variants: Any) -> None:
    found = problems(variants=variants, forced_variants={"qa-1": "green"}, flag={"key": "f", "serves": SERVES})

    assert ("forcedVariants.qa-1", "unknown_reference") in found
    assert ("flag.serves.green", "unknown_reference") in found
