"""The results above the metrics: the verdict, the progress of the plan, and the checks of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.admin.results.cards import MetricCard, build_card
from experiments.admin.results.history import describe_end, describe_fully
from experiments.admin.results.phases import Phases, build_phases, format_users
from experiments.admin.results.progress import Progress, build_progress
from experiments.admin.words import describe_moment
from experiments.models import Experiment, Status
from experiments.results.classification import WORDS, AssignmentAudit
from experiments.results.outcomes import Outcome
from experiments.results.types import Guards, Results
from experiments.stats.numbers import equate_p_value, format_count
from experiments.stats.outcomes import Decision, SampleRatio
from experiments.stats.types import Reason

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
    """One check of the data, and its outcome in words."""

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
        """Since when the flag of a running experiment has been off, in words; empty if it is on."""
        since = self.results.guards.flag_off_since
        return describe_moment(since) if since and self.experiment.status == Status.RUNNING else ""

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
    def never_received(self) -> Sequence[tuple[str, str]]:
        """The metrics with events that never came: the key of each, and what to do about it."""
        return [(card.definition.key, card.never_received) for card in self.cards if card.never_received]

    @property
    def has_windows(self) -> bool:
        """Whether the metrics count mature users only, unless all users are asked for."""
        return any(card.definition.counts_mature_users for card in self.cards)

    @property
    def counts_all_users(self) -> bool:
        """Whether users count whose window is not over."""
        return self.has_windows and self.results.maturity == "all"

    @property
    def phases(self) -> Phases | None:
        return build_phases(self.results.phases)

    @property
    def users(self) -> str:
        return format_count(self.results.users, "user")

    @property
    def variants(self) -> Sequence[tuple[str, str, str]]:
        """For each variant its key, its users, and the number expected by its weight."""
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
    """Return the verdict; once the experiment is stopped, what was decided, and then the reasons of the verdict."""
    verdict, experiment = results.verdict, results.experiment
    reasons = [reason.message for reason in verdict.reasons]
    if outcome is not None:
        winner = experiment.winner
        tone = "good" if winner and winner == verdict.variant else "none"
        icon = "task_alt" if winner else "stop_circle"
        return Badge(describe_end(experiment), tone, icon, [*describe_fully(experiment, outcome), *reasons])
    label, tone, icon = _BADGES[verdict.decision]
    return Badge(label.format(verdict.variant), tone, icon, reasons)


# checks of the data


def _guards(guards: Guards) -> list[Guard]:
    several, unknown = guards.users_in_several_variants, guards.events_of_unknown_variants
    return [
        _sample_ratio(guards.sample_ratio),
        _guard("Users in several variants", several, "user", "each counts for the first variant"),
        _guard("Events with unknown variants", unknown, "event", "not counted"),
        _guard("Doubted reports", guards.doubted_reports, "event", "not counted, as client keys may not report these"),
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
