"""The results of an experiment as people look at them: the verdict, what guards it, and a card for each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.admin.results.cards import MetricCard, metric_card
from experiments.admin.results.phases import Phases, phases_of
from experiments.admin.words import counted, p_value
from experiments.models import Experiment
from experiments.results.classification import WORDS
from experiments.results.types import Audit, Guards, Results
from experiments.stats.types import Decision, Reason, SampleRatio, Verdict

_BADGES = {
    Decision.SHIP: ("Ship {}", "good", "rocket_launch"),
    Decision.DO_NOT_SHIP: ("Do not ship", "bad", "block"),
    Decision.KEEP_RUNNING: ("Keep running", "open", "hourglass_top"),
    Decision.INCONCLUSIVE: ("No clear result", "none", "balance"),
    Decision.CHECK_DATA: ("Check the data", "warning", "warning"),
}


@dataclass(frozen=True, slots=True)
class Badge:
    """A decision in two or three words, with the colour and the sign that stand for it, and the reasons for it."""

    label: str
    tone: str
    icon: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that could make the figures worth less, and how it stands."""

    name: str
    words: str
    is_alarm: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """What a page shows of an experiment that was started. `primary` is the card of its first goal."""

    results: Results
    badge: Badge
    guards: Sequence[Guard]
    cards: Sequence[MetricCard]

    @property
    def experiment(self) -> Experiment:
        return self.results.experiment

    @property
    def primary(self) -> MetricCard | None:
        return next((card for card in self.cards if card.is_primary), None)

    @property
    def is_mismatch(self) -> bool:
        """Whether the users are split in another way than the weights say."""
        ratio = self.results.guards.sample_ratio
        return isinstance(ratio, SampleRatio) and ratio.is_mismatch

    @property
    def phases(self) -> Phases | None:
        return phases_of(self.results.phases)

    @property
    def users(self) -> str:
        return counted(self.results.users, "user")

    @property
    def variants(self) -> Sequence[tuple[str, str, str]]:
        """Key, users, and how many the weights let expect."""
        return [(each.key, f"{each.users:,}", f"{each.expected_users:,.0f}") for each in self.results.variants]


def panel_of(results: Results) -> Panel:
    return Panel(
        results=results,
        badge=badge_of(results.verdict),
        guards=_guards(results.guards),
        cards=[metric_card(each, results.breakdown) for each in results.metrics],
    )


def badge_of(verdict: Verdict) -> Badge:
    label, tone, icon = _BADGES[verdict.decision]
    return Badge(label.format(verdict.variant), tone, icon, [reason.message for reason in verdict.reasons])


def _guards(guards: Guards) -> list[Guard]:
    found = [
        _sample_ratio(guards.sample_ratio),
        _counted("Users in several variants", guards.users_in_several_variants, "user", "each counts for the first"),
        _counted("Events of unknown variants", guards.events_of_unknown_variants, "event", "they do not count"),
    ]
    if guards.audit:
        found += _audited(guards.audit)
    return found


def _audited(audit: Audit) -> Iterator[Guard]:
    yield _counted("Events before exposure", audit.events_before_exposure, "event", "they do not count", is_alarm=False)
    found = audit.assignments
    causes = [f"{count:,} {WORDS[cause]}" for cause, count in found.causes.items() if count]
    words = f"{found.differing:,} of {counted(found.exposures, 'exposure')}: {', '.join(causes)}" if causes else "none"
    yield Guard("Not as the hash has it", words, found.alarming > 0)
    outside = found.before_start + found.after_stop
    yield _counted("Exposures outside the run", outside, "exposure", "before the start or after the stop")


def _sample_ratio(ratio: SampleRatio | Reason) -> Guard:
    if isinstance(ratio, Reason):
        return Guard("Sample ratio", ratio.message, is_alarm=False)
    p = p_value(ratio.always_valid_p)
    shown = f"p {p}" if p.startswith("<") else f"p = {p}"
    words = f"not as the weights say ({shown})" if ratio.is_mismatch else f"as the weights say ({shown})"
    return Guard("Sample ratio", words, ratio.is_mismatch)


def _counted(name: str, count: int, noun: str, consequence: str, *, is_alarm: bool = True) -> Guard:
    words = f"{counted(count, noun)}; {consequence}" if count else "none"
    return Guard(name, words, is_alarm and count > 0)
