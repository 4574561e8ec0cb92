"""How many users and conversions a comparison needs: those that would be expected without a difference."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from experiments.stats.shortages import BySums, find_shortages, users_to_judge
from experiments.stats.types import Measure, Quantile, ReasonCode, Sums

PAIR = ("control", "treatment")
USERS, CONVERSIONS = ReasonCode.TOO_FEW_USERS, ReasonCode.TOO_FEW_CONVERSIONS
SHARE = Measure("signup", "share")


def both(treatment: tuple[int, int], control: tuple[int, int]) -> BySums:
    """Return sums from the users with a value and all users of each variant."""
    return {
        key: Sums(n, nonzero, nonzero, nonzero) for key, (nonzero, n) in zip(PAIR, (control, treatment), strict=True)
    }


def slow(treatment: tuple[int, int], control: tuple[int, int]) -> BySums:
    """Return quantiles from the events and the users of each variant."""
    return {key: Quantile(n, events, 1.0, 0.1) for key, (events, n) in zip(PAIR, (control, treatment), strict=True)}


CASES: Sequence[tuple[str, Measure, Sequence[BySums], Sequence[ReasonCode], int | None]] = [
    ("100 expected, none seen", SHARE, [both((0, 2_000), (200, 2_000))], [], 4_000),
    ("252 expected, 3 seen", SHARE, [both((3, 5_000), (500, 5_000))], [], 10_000),
    ("1.8 expected, none seen", SHARE, [both((0, 100), (18, 900))], [CONVERSIONS], 5_556),
    ("exactly 10 expected", SHARE, [both((4, 500), (16, 500))], [], 1_000),
    ("9.5 expected", SHARE, [both((4, 500), (15, 500))], [CONVERSIONS, CONVERSIONS], 1_053),
    ("100 users", SHARE, [both((50, 100), (50, 100))], [], 200),
    ("99 users", SHARE, [both((50, 99), (50, 100))], [USERS], 202),
    ("nobody converted", SHARE, [both((0, 900), (0, 900))], [CONVERSIONS, CONVERSIONS], None),
    ("no users in a variant", SHARE, [both((0, 0), (90, 900))], [USERS], None),
    (
        "6 expected in each of two strata",
        SHARE,
        [both((6, 600), (54, 5_400)), both((2, 400), (10, 400))],
        [],
        6_800,
    ),
    ("one stratum without the treatment", SHARE, [{"control": Sums(900, 90, 90, 90)}], [USERS], None),
    (
        "8 events beyond the quantile",
        Measure("wait", "quantile", quantile=0.99),
        [slow((800, 400), (7_200, 3_600))],
        [CONVERSIONS],
        5_000,
    ),
    ("40 of the median", Measure("wait", "quantile"), [slow((80, 200), (80, 200))], [], 400),
    (
        "10 below the first percentile",
        Measure("wait", "quantile", quantile=0.01),
        [slow((0, 1_000), (2_000, 1_000))],
        [],
        2_000,
    ),
]


@pytest.mark.parametrize(
    ("measure", "strata", "codes", "needed"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_shortages__of_a_table__count_what_is_expected(
    measure: Measure, strata: Sequence[BySums], codes: Sequence[ReasonCode], needed: int | None
) -> None:
    found = find_shortages(measure, strata, PAIR, where="")
    assert [reason.code for reason in found] == list(codes)
    assert users_to_judge(measure, strata, PAIR) == needed


def test_shortages__say_what_is_missing_of_whom() -> None:
    [reason] = find_shortages(SHARE, [both((0, 100), (18, 900))], PAIR, where=" in phase 2")
    assert reason.message == (
        "signup: without a difference, treatment would have 1.800 users with a value in phase 2; "
        "a verdict needs 10 in every variant."
    )
    mature = Measure("signup", "share", counts_mature_users=True)
    [reason] = find_shortages(mature, [both((9, 99), (90, 100))], PAIR, where="")
    assert reason.message == "treatment has 99 mature users; a verdict needs 100 in every variant."
