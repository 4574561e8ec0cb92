"""Whether a comparison has users and conversions enough to say anything.

What counts is what would be expected without a difference, not what was seen: 200 of 2,000 users against 0 of 2,000 say
much, because 100 would be expected in each, and 18 of 900 against 0 of 100 say little, because 1.8 would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from experiments.stats.numbers import format_count, format_number
from experiments.stats.types import Measure, Quantile, Reason, ReasonCode, Sums

MIN_USERS = 100
MIN_EXPECTED = 10

BySums = Mapping[str, Sums | Quantile]


def find_shortages(measure: Measure, strata: Sequence[BySums], pair: tuple[str, str], *, where: str) -> list[Reason]:
    """Return a reason for each of two variants that is too small to compare in these strata.

    `where` names the strata if they are not all, as in " in phase 2".
    """
    return [*_find(measure, strata, pair, where)]


def users_to_judge(measure: Measure, strata: Sequence[BySums], pair: tuple[str, str]) -> int | None:
    """Return how many users both variants together need at least, in their proportion; None if no number suffices."""
    users = {key: sum(stratum[key].n for stratum in strata if key in stratum) for key in pair}
    expected = {key: sum(_expected(measure, stratum, key, pair) for stratum in strata) for key in pair}
    if not all(users.values()) or not all(expected.values()):
        return None
    factor = max(1.0, *(max(MIN_USERS / users[key], MIN_EXPECTED / expected[key]) for key in pair))
    return ceil(sum(users.values()) * factor)


def _find(measure: Measure, strata: Sequence[BySums], pair: tuple[str, str], where: str) -> Iterator[Reason]:
    for key in pair:
        users = sum(stratum[key].n for stratum in strata if key in stratum)
        if users < MIN_USERS:
            has = f"{key} has {format_count(users, measure.user)}{where}"
            yield Reason(ReasonCode.TOO_FEW_USERS, f"{has}; a verdict needs {MIN_USERS} in every variant.")
            continue
        expected = sum(_expected(measure, stratum, key, pair) for stratum in strata)
        if expected < MIN_EXPECTED:
            what = "events beyond the quantile" if measure.kind == "quantile" else f"{measure.user}s with a value"
            message = f"{measure.key}: without a difference, {key} would have {format_number(expected)} {what}{where};"
            yield Reason(ReasonCode.TOO_FEW_CONVERSIONS, f"{message} a verdict needs {MIN_EXPECTED} in every variant.")


def _expected(measure: Measure, stratum: BySums, key: str, pair: tuple[str, str]) -> float:
    """Return the number of users of a variant who would have a value other than 0 if both variants had as many.

    Of a quantile, it is the number of events on the rarer side of it.
    """
    parts = [stratum[variant] for variant in pair if variant in stratum]
    users = sum(part.n for part in parts)
    if not users or key not in stratum:
        return 0.0
    active = sum(part.events * measure.rarer_side if isinstance(part, Quantile) else part.nonzero for part in parts)
    return active / users * stratum[key].n
