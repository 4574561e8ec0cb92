"""The results above the metrics: the verdict, the progress of the plan, the phases, and the checks of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from config.timestamps import parse_timestamp
from experiments.admin.results.history import describe_end, describe_fully, describe_taken_back
from experiments.admin.results.metric_card import MetricCard, build_card
from experiments.admin.words import describe_moment
from experiments.models import WHOLE, Experiment, Status
from experiments.models.phases import split_of
from experiments.results.classification import WORDS, AssignmentAudit
from experiments.results.large_values import LargeValue
from experiments.results.outcomes import Outcome
from experiments.results.types import DataAudit, Guards, MetricFigures, PhaseFigures, Results, VariantUsers
from experiments.stats.numbers import equate_p_value, format_count, format_short_number
from experiments.stats.outcomes import Decision, SampleRatio
from experiments.stats.plans import split_size
from experiments.stats.types import Reason, Weight
from flags.explanations.rule_words import describe_conditions

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """A part of the plan: what was planned, how far it is in words, and its share in percent."""

    name: str
    words: str
    percent: float

    @property
    def is_done(self) -> bool:
        return self.percent >= 100


def build_progress(results: Results) -> Iterator[Progress]:
    """Yield the shortest run until it is over, and the planned size, if they were planned."""
    days = (results.experiment.registration or {}).get("minimumDays", 0)
    if days and results.experiment.stopped_at is None and results.plan.remaining > timedelta(0):
        yield _shortest_run(days, results.plan.remaining)
    primary = results.primary_metric
    if results.plan.size and primary:
        is_fixed = results.plan.analysis == "fixed"
        yield _one_reading(results, primary) if is_fixed else _planned_size(results, primary)


def days_left(results: Results) -> int | None:
    """Return how many days a running experiment needs for its plan at its present pace; None if it is not known."""
    started_at, size = results.experiment.started_at, results.plan.size
    if started_at is None or (not size and not (results.experiment.registration or {}).get("minimumDays")):
        return None
    left = max(results.plan.remaining, timedelta(0))
    if size and (missing := size - results.planned_users) > 0:
        if not results.planned_users:
            return None
        left = max(left, (results.as_of - started_at) * (missing / results.planned_users))
    return math.ceil(left / _DAY)


def _shortest_run(days: int, remaining: timedelta) -> Progress:
    words = f"{format_count(math.ceil(remaining / _DAY), 'day')} left of {days}"
    return Progress("Shortest run", words, _percent_of(1 - remaining / (days * _DAY)))


def _planned_size(results: Results, primary: MetricFigures) -> Progress:
    size, counted = results.plan.size or 0, results.planned_users
    least = results.plan.minimum_effect
    effect = f"; smallest effect of interest: {100 * least:.4g}\N{NO-BREAK SPACE}%" if least else ""
    planned = format_count(size, results.user_of(primary.definition))
    return Progress("Planned size", f"{counted:,} of {planned}{effect}", _percent_of(counted / size))


def _one_reading(results: Results, primary: MetricFigures) -> Progress:
    """Return how far a fixed analysis is from its one reading, which waits for the slowest variant."""
    size = results.plan.size or 0
    if results.read_at is not None:
        words = f"on {describe_moment(results.read_at)}; later users do not count"
        if results.open_until is not None:
            words += f". Data from before that may still arrive until {describe_moment(results.open_until)}"
        return Progress("The one reading", words, 100.0)
    counted = {variant.key: variant.counted_users for variant in primary.variants}
    weights = results.plan.variants or [Weight(variant.key, variant.weight) for variant in results.variants]
    percent = _percent_of(min(counted[key] / users for key, users in split_size(size, weights).items()))
    planned = format_count(size, results.user_of(primary.definition))
    words = f"{math.floor(percent)} % of the way to {planned}, when every variant has its part"
    return Progress("Until the one reading", words, percent)


def _percent_of(share: float) -> float:
    return round(100 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase. `changes` are those since the phase before, or everything for the first phase.

    `users` has for each variant its key, its users, and the number expected by its weight.
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
    """Return the table of phases; None if there has been only one."""
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
    """Return for each variant its key, its users, and the number expected by its weight."""
    return [(variant.key, f"{variant.users:,}", f"{variant.expected_users:,.0f}") for variant in variants]


def _percent(value: float) -> str:
    return f"{format_short_number(round(value, 3))} %"


# The label, the tone and the icon of each decision.
_BADGES = {
    Decision.SHIP: ("Ship {}", "good", "rocket_launch"),
    Decision.DO_NOT_SHIP: ("Do not ship", "bad", "block"),
    Decision.KEEP_RUNNING: ("Keep running", "open", "hourglass_top"),
    Decision.NO_DIFFERENCE: ("No difference", "none", "equal"),
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
    """A check of the data, and its outcome in words."""

    name: str
    words: str
    is_alarm: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """What a page shows of a started experiment."""

    results: Results
    badge: Badge
    progress: Sequence[Progress]
    guards: Sequence[Guard]
    cards: Sequence[MetricCard]

    @property
    def experiment(self) -> Experiment:
        return self.results.experiment

    @property
    def flag_off_since(self) -> str:
        """Return since when the flag of a running experiment has been off, in words; empty if it is on."""
        since = self.results.guards.flag_off_since
        return describe_moment(since) if since and self.experiment.status == Status.RUNNING else ""

    @property
    def primary(self) -> MetricCard | None:
        return next((card for card in self.cards if card.is_primary), None)

    @property
    def is_mismatch(self) -> bool:
        ratio = self.results.guards.sample_ratio
        return isinstance(ratio, SampleRatio) and ratio.is_mismatch

    @property
    def never_received(self) -> Sequence[tuple[str, str]]:
        """Return the metrics with events that never came: the key of each, and what to do about it."""
        return [(card.definition.key, card.never_received) for card in self.cards if card.never_received]

    @property
    def has_windows(self) -> bool:
        """Return whether a metric has a window, after which users count unless all are asked for."""
        return any(card.definition.counts_mature_users for card in self.cards)

    @property
    def counts_all_users(self) -> bool:
        """Return whether users count whose window is open."""
        return self.has_windows and self.results.maturity == "all"

    @property
    def phases(self) -> Phases | None:
        return build_phases(self.results.phases)

    @property
    def users(self) -> str:
        return format_count(self.results.users, "user")

    @property
    def variants(self) -> Sequence[tuple[str, str, str]]:
        return format_users(self.results.variants)


def build_panel(results: Results, outcome: Outcome | None = None) -> Panel:
    """Return the panel. With the outcome of a stopped experiment, its badge is history instead of advice."""
    return Panel(
        results=results,
        badge=build_badge(results, outcome),
        progress=list(build_progress(results)),
        guards=_guards(results.guards),
        cards=[build_card(results, metric) for metric in results.metrics],
    )


def build_badge(results: Results, outcome: Outcome | None = None) -> Badge:
    """Return the verdict. Once the experiment is stopped, return what was decided, with the verdict's reasons."""
    verdict, experiment = results.verdict, results.experiment
    reasons = [*(reason.message for reason in verdict.reasons), *describe_taken_back(results.verdicts)]
    if outcome is not None:
        winner = experiment.winner
        tone = "good" if winner and winner == verdict.variant else "none"
        icon = "task_alt" if winner else "stop_circle"
        return Badge(describe_end(experiment), tone, icon, [*describe_fully(experiment, outcome), *reasons])
    label, tone, icon = _BADGES[verdict.decision]
    return Badge(label.format(verdict.variant), tone, icon, reasons)


# checks of the data


def _guards(guards: Guards) -> list[Guard]:
    in_several_variants, unknown_variants = guards.users_in_several_variants, guards.events_of_unknown_variants
    return [
        _sample_ratio(guards.sample_ratio),
        _guard("Users in several variants", in_several_variants, "user", "each counts for the first variant"),
        _guard("Events with unknown variants", unknown_variants, "event", "not counted"),
        _guard("Doubted reports", guards.doubted_reports, "event", "not counted, as client keys may not report these"),
        *(_audit_guards(guards.audit) if guards.audit else ()),
    ]


def _audit_guards(audit: DataAudit) -> Iterator[Guard]:
    yield _guard("Events before exposure", audit.events_before_exposure, "event", "not counted", is_alarm=False)
    if (unexposed := audit.unexposed) is not None:
        events = format_count(unexposed.events, "event")
        words = f"{events} of {format_count(unexposed.users, 'user')}; not counted. {unexposed.reason}"
        name = "Conversions without exposure"
        yield Guard(name, words if unexposed.events else "none", unexposed.similar_users > 0)
    consequence = "other ids but for blanks or case; each counts as a user"
    yield _guard("Similar ids", audit.similar_ids, "user", consequence)
    yield Guard("Large values", "; ".join(map(_describe_large, audit.large_values)) or "none", bool(audit.large_values))
    yield from _assignment_guards(audit.assignments)


def _describe_large(large: LargeValue) -> str:
    share = f"{math.floor(100 * large.share)} %"
    return f"{share} of {large.metric} in {large.variant} come from the user {large.user_id}"


def _assignment_guards(audit: AssignmentAudit) -> Iterator[Guard]:
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
