"""The page of all finished experiments: decisions, effects, and what is left of the effects on average."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from config.admin.current_environment import current_environment
from config.admin.site import DomainAdmin
from experiments.admin.results.formatting import format_lift, lift_of_test
from experiments.admin.results.history import describe_end, format_briefly, shown_effects
from experiments.models import Experiment, Status
from experiments.results.outcomes import Effect
from experiments.results.portfolio import Average, FinishedExperiments, MetricAverages, Programme
from experiments.stats.false_discoveries import RATE
from experiments.stats.lifts import MIN_EFFECTS, Lift
from experiments.stats.numbers import format_count
from experiments.stats.types import Test

_A_PAGE = 25
_MAX_METRICS = 10
_TONES = {"better": "good", "worse": "bad"}


@dataclass(frozen=True, slots=True)
class EffectRow:
    """The effect of a treatment on the primary metric, formatted. `corrected` is empty if there is no correction.

    `hold` says of a better treatment whether it holds among all started experiments.
    """

    metric: str
    variant: str
    label: str
    tone: str
    hold: str
    lift: str
    interval: str
    corrected: str
    corrected_interval: str


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """A finished experiment. `note` says why its effects are missing or do not count."""

    experiment: Experiment
    end: str
    users: str
    note: str
    effects: Sequence[EffectRow]


@dataclass(frozen=True, slots=True)
class AverageRow:
    """The average effect of some treatments on a goal, in words and as figures.

    `corrected` is empty if there are too few effects, and where `is_chosen` says that none was chosen from others.
    """

    metric: str
    words: str
    whose: str
    is_chosen: bool
    measured: str
    measured_interval: str
    corrected: str
    corrected_interval: str


@dataclass(frozen=True, slots=True)
class ProgrammeRow:
    """All started experiments in words, and those that run and hold, with the variants that hold."""

    words: str
    running: Sequence[tuple[Experiment, str]]
    without_outcome: int


class PortfolioPage(DomainAdmin):
    def get_urls(self) -> list[Any]:
        return [self.route("portfolio/", self.portfolio_view, "portfolio"), *super().get_urls()]

    def portfolio_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        finished = FinishedExperiments(current_environment(request), timezone.now())
        page = Paginator(finished.experiments, _A_PAGE).get_page(request.GET.get("p"))
        averages = finished.averages()
        context = {
            "title": "Finished experiments",
            "opts": None,
            "page": page,
            "rows": [build_row(finished, experiment) for experiment in page],
            "programme": build_programme(finished),
            "averages": [row for metric in averages[:_MAX_METRICS] for row in build_averages(metric)],
            "more_metrics": len(averages[_MAX_METRICS:]),
            "missing": finished.missing,
            "doubtful": finished.doubtful,
            "least_effects": MIN_EFFECTS,
        }
        return self.page(request, "admin/experiments/portfolio.html", context)


def build_row(finished: FinishedExperiments, experiment: Experiment) -> FinishedRow:
    outcome = finished.outcomes.get(experiment.pk)
    if outcome is None:
        return FinishedRow(experiment, describe_end(experiment), "", "The effects are not computed yet.", [])
    effects = shown_effects(experiment, outcome.effects)
    note = "" if effects else "There is no lift of a primary metric."
    if outcome.is_doubtful:
        note = "The data needed a check, so no average counts it."
    holding = finished.holding(experiment)
    rows = [_effect(effect, finished.corrected(experiment, effect), holding) for effect in effects]
    return FinishedRow(experiment, describe_end(experiment), format_count(outcome.users, "user"), note, rows)


def _effect(effect: Effect, corrected: Lift | None, holding: Collection[str]) -> EffectRow:
    interval = lift_of_test(Test(effect.lower, effect.upper, 1.0, effect.level), "").interval
    return EffectRow(
        metric=effect.metric,
        variant=effect.variant,
        label=effect.label,
        tone=_TONES.get(effect.label, "open"),
        hold="" if effect.label != "better" else "holds" if effect.variant in holding else "does not hold",
        lift=format_lift(effect.lift),
        interval=interval,
        corrected=format_lift(corrected.estimate) if corrected else "",
        corrected_interval=_interval(corrected) if corrected else "",
    )


def build_programme(finished: FinishedExperiments) -> ProgrammeRow:
    programme = finished.programme
    return ProgrammeRow(
        _programme_in_words(programme),
        [
            (experiment, ", ".join(finished.holding(experiment)))
            for experiment in programme.holding
            if experiment.status == Status.RUNNING
        ],
        programme.without_outcome,
    )


def _programme_in_words(programme: Programme) -> str:
    """Return `2 of the 40 started experiments have a variant that is better. ...`."""
    started, winners, holding = programme.experiments, len(programme.winners), len(programme.holding)
    have, hold = "has" if winners == 1 else "have", "holds" if holding == 1 else "hold"
    if not winners:
        return f"None of {format_count(started, 'started experiment')} has a variant that is better."
    sentence = f"{winners:,} of {format_count(started, 'started experiment')} {have} a variant that is better."
    number = f"{holding:,}" if holding else "None"
    rate = f"a false discovery rate of {100 * RATE:.3g} % over all {started:,}"
    return f"{sentence} {number} of them {hold} at {rate}."


def build_averages(averages: MetricAverages) -> list[AverageRow]:
    """Return a row of the shipped treatments, if any, and a row of all treatments."""
    name = averages.metric + (f", version {averages.version}" if averages.version > 1 else "")
    rows = [_average(name, "tried", averages.all, "Nothing was chosen here, so nothing is corrected.")]
    if averages.shipped is not None:
        shipped = averages.shipped
        remark = _describe_correction(shipped, is_decrease_good=averages.is_decrease_good)
        rows.insert(0, _average(name, "shipped", shipped, remark))
    return rows


def _average(name: str, whose: str, average: Average, remark: str) -> AverageRow:
    measured, corrected, number = average.measured, average.corrected, average.number
    who = f"The {number:,} variants that were {whose}" if number > 1 else f"The one variant that was {whose}"
    return AverageRow(
        metric=name,
        words=f"{who} changed {name} by {format_briefly(measured.estimate)} on average as measured. {remark}",
        whose=f"{average.number:,} {whose}",
        is_chosen=whose == "shipped",
        measured=format_lift(measured.estimate),
        measured_interval=_interval(measured),
        corrected=format_lift(corrected.estimate) if corrected else "",
        corrected_interval=_interval(corrected) if corrected else "",
    )


def _describe_correction(shipped: Average, *, is_decrease_good: bool) -> str:
    """Say what is left of the measured average, and why, if it is not less than was measured."""
    measured, corrected = shipped.measured.estimate, shipped.corrected
    if corrected is None:
        return "There are too few experiments to correct it."
    lower, upper = (format_briefly(bound) for bound in (corrected.lower, corrected.upper))
    sentence = f"The true average is more likely {format_briefly(corrected.estimate)} ({lower} to {upper})"
    if corrected.estimate * measured < 0 or abs(corrected.estimate) > abs(measured):
        return f"{sentence}, because the less certain effects shrink further than those in the other direction."
    if (measured > 0) == is_decrease_good:
        return f"{sentence}. This is not a winner's curse: a good result here was not the reason to ship."
    return f"{sentence}."


def _interval(lift: Lift) -> str:
    return f"{format_lift(lift.lower)} to {format_lift(lift.upper)}"
