"""The phases of an experiment in words: what changed, who came, whether they were split as wanted, and who counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.timestamps import parse_timestamp
from experiments.admin.words import p_value, short_number
from experiments.design.phases import split_of
from experiments.models import WHOLE
from experiments.results.types import PhaseFigures
from experiments.stats.types import SampleRatio
from flags.words.rules import summarise_condition


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase. `changes` are against the phase before it; of the first one, what it began with."""

    number: int
    started_at: datetime
    changes: Sequence[str]
    reason: str
    users: Sequence[tuple[str, str, str]]
    ratio: str
    is_mismatch: bool
    is_covered: bool


@dataclass(frozen=True, slots=True)
class Phases:
    """`note` says whose users the figures are of. `is_mixed`: they were split by different weights."""

    rows: Sequence[PhaseRow]
    note: str
    is_mixed: bool


def phases_of(figures: Sequence[PhaseFigures]) -> Phases | None:
    """None where there has been but one phase, of which there is nothing to tell."""
    if len(figures) < 2:
        return None
    rows = [_row(each, before) for each, before in zip(figures, [None, *figures], strict=False)]
    covered = [each for each in figures if each.is_covered]
    is_mixed = len({split_of(each.configuration) for each in covered if each.users}) > 1
    return Phases(rows, _note(covered, len(figures), is_mixed=is_mixed), is_mixed)


def _row(figures: PhaseFigures, before: PhaseFigures | None) -> PhaseRow:
    ratio = figures.sample_ratio
    return PhaseRow(
        number=figures.number,
        started_at=parse_timestamp(figures.configuration["startedAt"]),
        changes=list(_changes(figures, before)),
        reason=figures.configuration["reason"],
        users=[(each.key, f"{each.users:,}", f"{each.expected_users:,.0f}") for each in figures.variants],
        ratio=_p(ratio.always_valid_p) if isinstance(ratio, SampleRatio) else "nobody came",
        is_mismatch=isinstance(ratio, SampleRatio) and ratio.is_mismatch,
        is_covered=figures.is_covered,
    )


def _changes(figures: PhaseFigures, before: PhaseFigures | None) -> Iterator[str]:
    now, then = figures.configuration, before.configuration if before else None
    if then is None or split_of(now) != split_of(then):
        shares = zip(now["variants"], split_of(now), strict=True)
        yield " · ".join(f"{variant['key']} {_percent(100 * float(share))}" for variant, share in shares)
    if then is None or now["percentage"] != then["percentage"]:
        yield "everybody" if now["percentage"] == WHOLE else f"{_percent(now['percentage'])} of the audience"
    if now["conditions"] != (then["conditions"] if then else []):
        yield " and ".join(map(summarise_condition, now["conditions"])) or "no conditions any more"


def _note(covered: Sequence[PhaseFigures], number: int, *, is_mixed: bool) -> str:
    named = ", ".join(str(each.number) for each in covered)
    of = f"phase {named}" if len(covered) == 1 else f"phases {named}"
    if is_mixed:
        return f"Figures of {of}, which split users differently: what differs between their times looks like an effect."
    left_out = "; the users of the others are left out" if len(covered) < number else ""
    return f"Figures of {of}{left_out}."


def _percent(value: float) -> str:
    return f"{short_number(round(value, 3))} %"


def _p(value: float) -> str:
    shown = p_value(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
