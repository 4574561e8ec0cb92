"""The phases of an experiment, as the results page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from experiments.admin.results.panel import build_phases
from experiments.results.types import PhaseFigures, VariantUsers
from experiments.stats.sample_ratio import check
from experiments.stats.types import Weight

CONDITION = {"attribute": "country", "operator": "equals", "value": "CH"}


def figures(number: int, *, weights: Sequence[float] = (1, 1), users: tuple[int, int] = (10, 10), **others: Any) -> Any:
    variants = [{"key": key, "weight": weight} for key, weight in zip(("blue", "green"), weights, strict=True)]
    usual = {"startedAt": "2026-01-31T12:00:00.000000Z", "percentage": 100, "conditions": [], "reason": ""}
    counts = dict(zip(("blue", "green"), users, strict=True))
    return PhaseFigures(
        number,
        {**usual, "variants": variants, **{name: others[name] for name in usual.keys() & others.keys()}},
        [VariantUsers(key, 1, count, sum(users) / 2) for key, count in counts.items()],
        check([Weight(weighted["key"], weighted["weight"]) for weighted in variants], counts),
        others.get("is_covered", True),
    )


def test_phases__but_one__are_nothing_to_tell() -> None:
    assert build_phases([]) is build_phases([figures(1)]) is None


def test_phases__each__tell_what_changed_since_the_one_before() -> None:
    table = build_phases(
        [
            figures(1, percentage=10),
            figures(2, reason="Nothing broke.", weights=(50, 50)),
            figures(3, weights=(9, 1), conditions=[CONDITION]),
            figures(4, weights=(9, 1), users=(0, 0)),
        ]
    )
    assert table is not None
    assert [row.changes for row in table.rows] == [
        ["blue 50 % · green 50 %", "10 % of the audience"],
        ["everyone"],
        ["blue 90 % · green 10 %", "country equals CH"],
        ["conditions removed"],
    ]
    assert [row.reason for row in table.rows] == ["", "Nothing broke.", "", ""]
    assert [row.ratio for row in table.rows] == ["p = 1.00", "p = 1.00", table.rows[2].ratio, "no users"]
    assert table.rows[0].users == [("blue", "10", "10"), ("green", "10", "10")]


@pytest.mark.parametrize(
    ("phases", "note"),
    [
        (
            [figures(1, is_covered=False), figures(2)],
            "These figures cover phase 2; users of the other phases are left out.",
        ),
        ([figures(1), figures(2)], "These figures cover phases 1, 2."),
        (
            [figures(1, weights=(9, 1)), figures(2)],
            "These figures cover phases 1, 2. Phases with different weights are compared one by one and then combined, "
            "so a change over time does not look like an effect of the variant.",
        ),
        ([figures(1, weights=(9, 1), users=(0, 0)), figures(2)], "These figures cover phases 1, 2."),
    ],
)
def test_phases__covered_ones__are_named(phases: list[PhaseFigures], note: str) -> None:
    table = build_phases(phases)
    assert table is not None
    assert table.note == note


def test_phases__users_not_split_as_the_weights_of_their_phase_say__are_marked() -> None:
    table = build_phases([figures(1, users=(900, 100)), figures(2, users=(500, 500))])
    assert table is not None
    assert [row.is_mismatch for row in table.rows] == [True, False]
