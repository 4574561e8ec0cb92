"""The history of a metric before a plan: from the newest experiment that measured it, or from events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from config.database.consistent_reads import read_consistently
from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.models.phases import comparable_phases, comparable_since, mean_reach, reach_of
from experiments.planner.current_totals import CurrentTotals, read_counting
from experiments.planner.question import LARGEST_REDUCTION, Kind, check_measure
from experiments.planner.sample import sample_events
from experiments.results.quantiles import read_quantiles
from experiments.results.refresh import bring_up_to_date
from experiments.results.study import measure_of
from experiments.results.user_groups import UserGroup
from experiments.stats.samples import summarise
from experiments.stats.types import Quantile, Reason, Sums

FEWEST_USERS = 100
"""The fewest users of the control for an experiment to serve as history."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class History:
    """The values of a metric for the users between two moments, in an experiment or in the environment.

    `baseline` and `standard_deviation` are those of one user, in an experiment of one user of the
    control. `baseline` is None if it cannot be planned with, for example because nobody did it.
    `standard_deviation` is None for rates. `variance_reduction` is the share of the variance that CUPED
    removed in the experiment; None without an experiment, or where its users had no history. `users`
    are the users of all variants, in an experiment those of the phases that its results cover. `reach`
    is the share of all users (0 to 1) that the experiment let in at that time.
    """

    start: datetime
    end: datetime
    users: int
    baseline: float | None
    standard_deviation: float | None
    experiment: Experiment | None = None
    reach: float = 1.0
    variance_reduction: float | None = None

    @property
    def users_per_day(self) -> float:
        return _pace(self.users, self.start, self.end)

    def pace_in(self, experiment: Experiment | None) -> float | None:
        """Return the users a day of an experiment, scaled to the share of users that it lets in.

        Without an experiment, the answer is the users a day of this history.
        """
        if experiment is None:
            return self.users_per_day
        return self.users_per_day / self.reach * reach_of(experiment) or None if self.reach else None


def history_of(
    definition: Definition, environment: Environment, at: datetime, current: CurrentTotals | None = None
) -> History | None:
    """Return the history from this experiment, else from the newest of the others, else from events.

    Experiments with few users in the control, or without a usable baseline, are skipped. The answer
    is None where there are no users.
    """
    for experiment, users in _measuring(definition, environment, at, current):
        if history := _in_experiment(definition, experiment, users, at):
            return history
    with read_consistently():
        sample = sample_events(definition, environment, at)
    if sample is None:
        return None
    # A sample says nothing of the standard error of a quantile.
    moments = (None, None) if definition.type == "quantile" else _moments(definition, sample.sums)
    return History(sample.start, sample.end, sample.users, *moments)


def pace_of(current: CurrentTotals, at: datetime) -> float | None:
    """Return the users a day of an experiment, scaled to the share that it lets in now; None without users."""
    experiment = current.experiment
    users = sum(current.users.users.values())
    begun, end = comparable_since(experiment.phases), experiment.stopped_at or at
    if begun is None or not users:
        return None
    reach = mean_reach(experiment, begun, end)
    return _pace(users, begun, end) / reach * reach_of(experiment) if reach else None


def _pace(users: int, start: datetime, end: datetime) -> float:
    """Return the users a day. The time counts as at least a day, because an hour says little about a day."""
    return users / max(1.0, (end - start) / _DAY)


def _measuring(
    definition: Definition, environment: Environment, at: datetime, first: CurrentTotals | None
) -> Iterator[tuple[Experiment, UserGroup]]:
    """Yield the started experiments with this very definition of the metric, and their users."""
    if first is not None and definition in definitions_of(first.experiment):
        yield first.experiment, first.users
    for experiment in Experiment.objects.in_environment(environment).started().order_by("-started_at", "-id"):
        if definition in definitions_of(experiment) and (first is None or experiment.pk != first.experiment.pk):
            bring_up_to_date(experiment, at)
            with read_consistently():
                counting = read_counting(experiment, at)
            yield experiment, counting


def _inputs(
    definition: Definition, experiment: Experiment, group: UserGroup, at: datetime
) -> Mapping[str, Sums] | Mapping[str, Quantile]:
    """Return what the statistics take for the metric, by variant. Quantiles that are not stored come from events."""
    metric_index = definitions_of(experiment).index(definition)
    if definition.type != "quantile":
        return group.sums_of(metric_index)
    return read_quantiles(experiment, at, comparable_phases(experiment.phases)).get(metric_index, {})


def _in_experiment(definition: Definition, experiment: Experiment, group: UserGroup, at: datetime) -> History | None:
    """Return the history from an experiment's control; None with few users, or without a usable baseline.

    Users whose window is not over do not count for the baseline, but do for the users a day.
    """
    sums = _inputs(definition, experiment, group, at)
    control = sums.get(experiment.variant_keys[0])
    begun = comparable_since(experiment.phases)
    if control is None or control.n < FEWEST_USERS or begun is None:
        return None
    mean, deviation = _moments(definition, control)
    if mean is None:
        return None
    users = sum(group.users.values())
    end = experiment.stopped_at or at
    return History(
        start=begun,
        end=end,
        users=users,
        baseline=mean,
        standard_deviation=deviation,
        experiment=experiment,
        reach=mean_reach(experiment, begun, end),
        variance_reduction=_reduction_in(definition, sums),
    )


def _reduction_in(definition: Definition, sums: Mapping[str, Sums] | Mapping[str, Quantile]) -> float | None:
    """Return the share of the variance that CUPED removes, over all variants, as in the results."""
    from experiments.stats.cuped import adjust  # noqa: PLC0415 (NumPy costs memory that not every worker needs)

    adjustment = adjust(measure_of(definition).kind, [sums])
    return None if isinstance(adjustment, Reason) else min(adjustment.variance_reduction, LARGEST_REDUCTION)


def reduction_for(history: History, experiment: Experiment | None) -> float:
    """Return the reduction of the variance to expect in an experiment, or in a new one with the default plan.

    It is 0 where nothing is known of it, and where the experiment does not look back.
    """
    return (history.variance_reduction or 0.0) if experiment is None or _looks_back(experiment) else 0.0


def _looks_back(experiment: Experiment) -> bool:
    """Return whether CUPED decides: a start registers it, and an experiment from before that does not use it."""
    if experiment.started_at is None:
        return experiment.lookback_days > 0
    return bool((experiment.registration or {}).get("lookbackDays", 0))


def _moments(definition: Definition, sums: Sums | Quantile) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation of one user, as in the results.

    That of a quantile is its standard error times the root of the number of users. The deviation of a
    rate is None. Both are None where they cannot be planned with, because nobody or everybody did it,
    or all values are equal.
    """
    sample = summarise(measure_of(definition).kind, sums)
    if isinstance(sample, Reason):
        return None, None
    kind = kind_of(definition)
    deviation = None if kind is Kind.RATE else sqrt(sample.variance)
    return (None, None) if any(check_measure(kind, sample.mean, deviation)) else (sample.mean, deviation)


def kind_of(definition: Definition) -> Kind:
    return Kind.RATE if definition.is_share else Kind.MEAN
