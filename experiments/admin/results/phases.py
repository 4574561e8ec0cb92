"""The phases of an experiment, as the results page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.timestamps import parse_timestamp
from experiments.models import WHOLE
from experiments.models.phases import split_of
from experiments.results.types import PhaseFigures, VariantUsers
from experiments.stats.numbers import equate_p_value, format_short_number
from experiments.stats.outcomes import SampleRatio
from flags.explanations.rule_words import describe_conditions


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase. `changes` are those since the phase before; for the first phase, what it started with.

    `users` has the key of each variant, its users, and how many its weight lets expect.
    """

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
    """All phases. `note` says which of them the figures cover."""

    rows: Sequence[PhaseRow]
    note: str


def build_phases(phases: Sequence[PhaseFigures]) -> Phases | None:
    """Return the table of phases, or None for an experiment that has had only one."""
    if len(phases) < 2:
        return None
    rows = [_phase_row(phase, before) for phase, before in zip(phases, [None, *phases], strict=False)]
    covered = [phase for phase in phases if phase.is_covered]
    is_mixed = len({split_of(phase.configuration) for phase in covered if phase.users}) > 1
    return Phases(rows, _phases_note(covered, len(phases), is_mixed=is_mixed))


def _phase_row(phase: PhaseFigures, before: PhaseFigures | None) -> PhaseRow:
    ratio = phase.sample_ratio
    return PhaseRow(
        number=phase.number,
        started_at=parse_timestamp(phase.configuration["startedAt"]),
        changes=list(_phase_changes(phase, before)),
        reason=phase.configuration["reason"],
        users=format_users(phase.variants),
        ratio=equate_p_value(ratio.always_valid_p) if isinstance(ratio, SampleRatio) else "no users",
        is_mismatch=isinstance(ratio, SampleRatio) and ratio.is_mismatch,
        is_covered=phase.is_covered,
    )


def _phase_changes(phase: PhaseFigures, before: PhaseFigures | None) -> Iterator[str]:
    new, old = phase.configuration, before.configuration if before else None
    if old is None or split_of(new) != split_of(old):
        shares = zip(new["variants"], split_of(new), strict=True)
        yield " · ".join(f"{variant['key']} {_percent(100 * float(share))}" for variant, share in shares)
    if old is None or new["percentage"] != old["percentage"]:
        yield "everyone" if new["percentage"] == WHOLE else f"{_percent(new['percentage'])} of the audience"
    if new["conditions"] != (old["conditions"] if old else []):
        yield describe_conditions(new["conditions"]) or "conditions removed"


def _phases_note(covered: Sequence[PhaseFigures], number: int, *, is_mixed: bool) -> str:
    numbers = ", ".join(str(phase.number) for phase in covered)
    of = f"phase {numbers}" if len(covered) == 1 else f"phases {numbers}"
    if is_mixed:
        return (
            f"These figures cover {of}. Phases with different weights are compared one by one and then combined, so a "
            "change over time does not look like an effect of the variant."
        )
    left_out = "; users of the other phases are left out" if len(covered) < number else ""
    return f"These figures cover {of}{left_out}."


def format_users(variants: Sequence[VariantUsers]) -> list[tuple[str, str, str]]:
    """Return for each variant its key, its users, and how many its weight lets expect."""
    return [(variant.key, f"{variant.users:,}", f"{variant.expected_users:,.0f}") for variant in variants]


def _percent(value: float) -> str:
    return f"{format_short_number(round(value, 3))} %"
