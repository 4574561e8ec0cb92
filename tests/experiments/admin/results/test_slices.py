"""A metric by the values of an attribute: labels, rows, and whether the effect differs."""

from __future__ import annotations

import pytest

from experiments.admin.results.slices import Slices, build_slices
from experiments.results.types import Breakdown, Interaction, Slice
from tests.experiments.admin.results.made import (
    CONVERSION,
    EXPERIMENT,
    TOO_FEW,
    compared,
    estimate,
    metric,
    results,
    variant,
)

BETTER = compared(estimate(0.1, 0.05), estimate(0.012, 0.006))
WHOLE = metric(CONVERSION, variant("blue", 0.1), variant("green", 0.11, BETTER))


def sliced(*parts: tuple[str | bool | float | None, bool], interactions: tuple[Interaction, ...] = ()) -> Slices:
    slices = [Slice(value, is_rest, 1_200, [WHOLE]) for value, is_rest in parts]
    return build_slices(results(EXPERIMENT), WHOLE, Breakdown("country", slices, interactions))


def test_slice__of_each_value__is_named_exactly_and_as_no_other(subtests: pytest.Subtests) -> None:
    for value, label in [
        (0.1234567, "0.1234567"),
        (20240115, "20240115"),
        (1, "1"),
        ("1", '"1"'),
        ("-2.5e3", '"-2.5e3"'),
        (False, "false"),
        ("false", '"false"'),
        ("null", '"null"'),
        ('"DE"', '"\\"DE\\""'),
        ("New York", "New York"),
        (" DE", '" DE"'),
        ("a  b", '"a  b"'),
        ("2024-01-15", "2024-01-15"),
        ("all others", '"all others"'),
        ("not recorded", '"not recorded"'),
    ]:
        with subtests.test(value=value):
            assert [group.label for group in sliced((value, False)).groups] == [label]


def test_slices__of_each_value__have_a_row_for_each_treatment() -> None:
    slices = sliced(("DE", False), (True, False), (2.5, False), ("", False), (None, False), (None, True))
    assert [group.label for group in slices.groups] == ["DE", "true", "2.5", '""', "not recorded", "all others"]
    assert all([row.key for row in group.rows] == ["green"] and group.rows[0].bar for group in slices.groups)
    assert slices.notes == []


def test_slices__with_interactions__say_whether_the_effect_differs() -> None:
    slices = sliced(
        ("DE", False),
        interactions=(
            Interaction(0, "green", 0.004),
            Interaction(0, "red", 0.5),
            Interaction(0, "grey", TOO_FEW),
            Interaction(1, "green", 0.001),
        ),
    )
    assert slices.notes == [
        "green: the effect differs between the values (interaction test, one look, p = 0.004).",
        "red: the effect is not shown to differ between the values (interaction test, one look, p = 0.50).",
        "grey: Fewer than 2 users.",
    ]
