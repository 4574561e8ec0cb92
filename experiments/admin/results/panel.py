"""The results above the metrics: the verdict, the checks of the data, and the phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.timestamps import parse_timestamp
from experiments.admin.results.cards import MetricCard, build_card
from experiments.admin.words import equate_p_value, format_count, format_short_number
from experiments.design.phases import split_of
from experiments.models import WHOLE, Experiment
from experiments.results.classification import WORDS, AssignmentAudit
from experiments.results.types import Guards, PhaseFigures, Results, VariantUsers
from experiments.stats.types import Decision, Reason, SampleRatio, Verdict
from flags.words.rules import describe_condition

# The label, the tone and the icon of each decision.
_BADGES = {
    Decision.SHIP: ("Ship {}", "good", "rocket_launch"),
    Decision.DO_NOT_SHIP: ("Do not ship", "bad", "block"),
    Decision.KEEP_RUNNING: ("Keep running", "open", "hourglass_top"),
    Decision.INCONCLUSIVE: ("No clear result", "none", "balance"),
    Decision.CHECK_DATA: ("Check the data", "warning", "warning"),
}


@dataclass(frozen=True, slots=True)
class Badge:
    """A decision in two or three words, with its reasons."""

    label: str
    tone: str
    icon: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Guard:
    """One check of the data, and its outcome in words."""

    name: str
    words: str
    is_alarm: bool


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
    """`note` says which phases the figures cover.

    `is_mixed`: these split their users by different weights.
    """

    rows: Sequence[PhaseRow]
    note: str
    is_mixed: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """What a page shows of a started experiment."""

    results: Results
    badge: Badge
    guards: Sequence[Guard]
    cards: Sequence[MetricCard]

    @property
    def experiment(self) -> Experiment:
        return self.results.experiment

    @property
    def primary(self) -> MetricCard | None:
        """The card of the primary metric."""
        return next((card for card in self.cards if card.is_primary), None)

    @property
    def is_mismatch(self) -> bool:
        """Whether there is a sample ratio mismatch."""
        ratio = self.results.guards.sample_ratio
        return isinstance(ratio, SampleRatio) and ratio.is_mismatch

    @property
    def phases(self) -> Phases | None:
        return build_phases(self.results.phases)

    @property
    def users(self) -> str:
        return format_count(self.results.users, "user")

    @property
    def variants(self) -> Sequence[tuple[str, str, str]]:
        """For each variant its key, its users, and the number expected by its weight."""
        return _format_users(self.results.variants)


def build_panel(results: Results) -> Panel:
    return Panel(
        results=results,
        badge=build_badge(results.verdict),
        guards=_guards(results.guards),
        cards=[build_card(metric, results.breakdown) for metric in results.metrics],
    )


def build_badge(verdict: Verdict) -> Badge:
    label, tone, icon = _BADGES[verdict.decision]
    return Badge(label.format(verdict.variant), tone, icon, [reason.message for reason in verdict.reasons])


def _format_users(variants: Sequence[VariantUsers]) -> list[tuple[str, str, str]]:
    return [(variant.key, f"{variant.users:,}", f"{variant.expected_users:,.0f}") for variant in variants]


# checks of the data


def _guards(guards: Guards) -> list[Guard]:
    several, unknown = guards.users_in_several_variants, guards.events_of_unknown_variants
    return [
        _sample_ratio(guards.sample_ratio),
        _guard("Users in several variants", several, "user", "each counts for the first variant"),
        _guard("Events with unknown variants", unknown, "event", "not counted"),
        *_requested_guards(guards.events_before_exposure, guards.assignments),
    ]


def _requested_guards(events_before_exposure: int | None, audit: AssignmentAudit | None) -> Iterator[Guard]:
    if events_before_exposure is None or audit is None:
        return
    yield _guard("Events before exposure", events_before_exposure, "event", "not counted", is_alarm=False)
    causes = ", ".join(f"{count:,} {WORDS[cause]}" for cause, count in audit.causes.items() if count)
    mismatches = f"{audit.differing:,} of {format_count(audit.exposures, 'exposure')}: {causes}"
    yield Guard("Assignment mismatches", mismatches if causes else "none", audit.alarming > 0)
    outside = audit.before_start + audit.after_stop
    yield _guard("Exposures outside the run", outside, "exposure", "before the start or after the stop")


def _sample_ratio(ratio: SampleRatio | Reason) -> Guard:
    if isinstance(ratio, Reason):
        return Guard("Sample ratio", ratio.message, is_alarm=False)
    verb = "does not match" if ratio.is_mismatch else "matches"
    return Guard("Sample ratio", f"{verb} the weights ({equate_p_value(ratio.always_valid_p)})", ratio.is_mismatch)


def _guard(name: str, count: int, noun: str, consequence: str, *, is_alarm: bool = True) -> Guard:
    words = f"{format_count(count, noun)}; {consequence}" if count else "none"
    return Guard(name, words, is_alarm and count > 0)


# phases


def build_phases(phases: Sequence[PhaseFigures]) -> Phases | None:
    """Return the table of phases, or None for an experiment that has had only one."""
    if len(phases) < 2:
        return None
    rows = [_phase_row(phase, before) for phase, before in zip(phases, [None, *phases], strict=False)]
    covered = [phase for phase in phases if phase.is_covered]
    is_mixed = len({split_of(phase.configuration) for phase in covered if phase.users}) > 1
    return Phases(rows, _phases_note(covered, len(phases), is_mixed=is_mixed), is_mixed)


def _phase_row(phase: PhaseFigures, before: PhaseFigures | None) -> PhaseRow:
    ratio = phase.sample_ratio
    return PhaseRow(
        number=phase.number,
        started_at=parse_timestamp(phase.configuration["startedAt"]),
        changes=list(_phase_changes(phase, before)),
        reason=phase.configuration["reason"],
        users=_format_users(phase.variants),
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
        yield " and ".join(map(describe_condition, new["conditions"])) or "conditions removed"


def _phases_note(covered: Sequence[PhaseFigures], number: int, *, is_mixed: bool) -> str:
    numbers = ", ".join(str(phase.number) for phase in covered)
    of = f"phase {numbers}" if len(covered) == 1 else f"phases {numbers}"
    if is_mixed:
        return (
            f"These figures cover {of}, which split users by different weights. A change over time can therefore look "
            "like an effect of the variant."
        )
    left_out = "; users of the other phases are left out" if len(covered) < number else ""
    return f"These figures cover {of}{left_out}."


def _percent(value: float) -> str:
    return f"{format_short_number(round(value, 3))} %"
