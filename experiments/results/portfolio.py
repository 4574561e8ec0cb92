"""All experiments of an environment together: effects on each goal, measured and corrected, and winners that hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from config.models import Environment
from experiments.models import Experiment, Status
from experiments.results.outcomes import Effect, Outcome, outcomes_so_far
from experiments.stats.false_discoveries import min_log_e_value
from experiments.stats.lifts import Lift, MeasuredEffect

if TYPE_CHECKING:
    from experiments.stats.winners_curse import Portfolio

MOST_COMPUTED = 5
"""Of the outcomes that are not stored yet, a page computes so many; the periodic task computes them all."""
_COLUMNS = (
    *("key", "description", "status", "variants", "winner", "decision"),
    *("started_at", "stopped_at", "counts_until", "frozen_at"),
)
_Metric = tuple[str, int]
_Key = tuple[UUID, str, str]


@dataclass(frozen=True, slots=True)
class Average:
    """The average effect of some treatments.

    `corrected` is None if there are too few effects to learn from, and for all treatments together: where nothing was
    chosen, there is no winner's curse.
    """

    number: int
    measured: Lift
    corrected: Lift | None


@dataclass(frozen=True, slots=True)
class MetricAverages:
    """One version of a goal: the average effect of all treatments, and of those that were shipped, if any were."""

    metric: str
    version: int
    is_decrease_good: bool
    all: Average
    shipped: Average | None


@dataclass(frozen=True, slots=True)
class Programme:
    """All started experiments, and which of their winners hold at the false discovery rate over all of them.

    A winner is a treatment that is better in the primary metric. `winners` are the experiments that have one, and
    `holding` those of them of which one holds. Without an outcome, an experiment counts as one without a winner.
    """

    experiments: int
    winners: Sequence[Experiment]
    holding: Sequence[Experiment]
    without_outcome: int


class FinishedExperiments:
    """The finished experiments of an environment, newest first, with the effects of those with an outcome."""

    def __init__(self, environment: Environment, at: datetime) -> None:
        """Read all experiments and outcomes with two queries, and compute a few outcomes that are not stored yet."""
        started = Experiment.objects.in_environment(environment).exclude(status=Status.DRAFT)
        newest_first = list(started.order_by("-stopped_at", "-id").only(*_COLUMNS, "environment"))
        for experiment in newest_first:
            experiment.environment = environment
        self.experiments = [experiment for experiment in newest_first if experiment.status == Status.STOPPED]
        self._running = [experiment for experiment in newest_first if experiment.status == Status.RUNNING]
        self.outcomes = outcomes_so_far([*self.experiments, *self._running], at, most=MOST_COMPUTED)
        self._effects: dict[_Metric, dict[_Key, tuple[Effect, bool]]] = {}
        for experiment in self.experiments:
            self._add(experiment, self.outcomes.get(experiment.pk))
        self._portfolios: dict[_Metric, Portfolio] = {}
        self._log_e_values = {pk: outcome.log_e_values or {} for pk, outcome in self.outcomes.items()}
        largest = [max(values.values()) for values in self._log_e_values.values() if values]
        self._min_log_e_value = min_log_e_value(largest, len(newest_first))

    @property
    def missing(self) -> int:
        """The number of finished experiments whose outcome is not computed yet."""
        return sum(experiment.pk not in self.outcomes for experiment in self.experiments)

    @property
    def doubtful(self) -> int:
        """The number of finished experiments that are left out, because their data needed a check."""
        known = [self.outcomes[experiment.pk] for experiment in self.experiments if experiment.pk in self.outcomes]
        return sum(outcome.is_doubtful for outcome in known)

    @property
    def programme(self) -> Programme:
        """All started experiments, those that run first."""
        started = [*self._running, *self.experiments]
        winners = [experiment for experiment in started if self._log_e_values.get(experiment.pk)]
        return Programme(
            len(started),
            winners,
            [experiment for experiment in winners if self.holding(experiment)],
            sum(experiment.pk not in self.outcomes for experiment in started),
        )

    def holding(self, experiment: Experiment) -> list[str]:
        """Return the treatments that hold at the false discovery rate over all started experiments."""
        log_e_values = self._log_e_values.get(experiment.pk, {})
        return [key for key, value in log_e_values.items() if value >= self._min_log_e_value]

    def averages(self) -> list[MetricAverages]:
        """Return the averages for each goal, those with the most effects first."""
        largest = sorted(self._effects.items(), key=lambda item: (-len(item[1]), item[0]))
        return [self._averages(metric, effects) for metric, effects in largest]

    def corrected(self, experiment: Experiment, effect: Effect) -> Lift | None:
        """Return a corrected effect, or None if it does not count or there are too few to learn from."""
        metric = (effect.metric, effect.version)
        keys = list(self._effects.get(metric, {}))
        key = (experiment.pk, effect.metric, effect.variant)
        return self._portfolio(metric).corrected([keys.index(key)]) if key in keys else None

    def _add(self, experiment: Experiment, outcome: Outcome | None) -> None:
        """Count the effects on goals whose standard error is known, unless the data needed a check."""
        for effect in outcome.effects if outcome and not outcome.is_doubtful else ():
            if effect.is_guardrail or effect.log_error is None or effect.lift <= -1:
                continue
            effects = self._effects.setdefault((effect.metric, effect.version), {})
            effects[experiment.pk, effect.metric, effect.variant] = effect, effect.variant == experiment.winner

    def _portfolio(self, metric: _Metric) -> Portfolio:
        from experiments.stats.winners_curse import Portfolio  # noqa: PLC0415 (see `results.study`)

        if metric not in self._portfolios:
            effects = (effect for effect, _ in self._effects[metric].values())
            self._portfolios[metric] = Portfolio(
                [MeasuredEffect(effect.lift, effect.log_error) for effect in effects if effect.log_error]
            )
        return self._portfolios[metric]

    def _averages(self, metric: _Metric, effects: Mapping[_Key, tuple[Effect, bool]]) -> MetricAverages:
        portfolio = self._portfolio(metric)
        shipped = [index for index, (_, is_shipped) in enumerate(effects.values()) if is_shipped]
        [first, *_] = effects.values()
        return MetricAverages(
            *metric,
            is_decrease_good=first[0].is_decrease_good,
            all=Average(len(effects), portfolio.measured(range(len(effects))), None),
            shipped=_average(portfolio, shipped) if shipped else None,
        )


def _average(portfolio: Portfolio, chosen: Sequence[int]) -> Average:
    return Average(len(chosen), portfolio.measured(chosen), portfolio.corrected(chosen))
