"""The history of a metric before a plan: from the newest experiment that measured it, or from events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from config.database.consistent_reads import read_consistently
from config.models import Environment
from experiments.aggregates.variant_sums import EXPOSURES, Totals, VariantTotals, pool, read_phases
from experiments.design.phases import comparable_phases, comparable_since, mean_reach, reach_of
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.planner.current_totals import CurrentTotals
from experiments.planner.question import Kind, check_measure
from experiments.planner.sample import sample_events
from experiments.results.to_stats import measure_of, sums_of
from experiments.stats.samples import summarise
from experiments.stats.types import Reason, Sums

FEWEST_USERS = 100
"""The fewest users of the control for an experiment to serve as history."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class History:
    """The values of a metric for the users between two moments, in an experiment or in the environment.

    `baseline` and `standard_deviation` are those of one user, in an experiment of one user of the
    control. `baseline` is None if it cannot be planned with, for example because nobody did it.
    `standard_deviation` is None for rates. `users` are the users of all variants, in an experiment
    those of the phases that its results cover. `reach` is the share of all users (0 to 1) that the
    experiment let in at that time.
    """

    start: datetime
    end: datetime
    users: int
    baseline: float | None
    standard_deviation: float | None
    experiment: Experiment | None = None
    reach: float = 1.0

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
    for experiment, totals in _measuring(definition, environment, at, current):
        if history := _in_experiment(definition, experiment, totals, at):
            return history
    with read_consistently():
        sample = sample_events(definition, environment, at)
    if sample is None:
        return None
    return History(sample.start, sample.end, sample.users, *_moments(definition, sample.sums))


def pace_of(current: CurrentTotals, at: datetime) -> float | None:
    """Return the users a day of an experiment, scaled to the share that it lets in now; None without users."""
    experiment = current.experiment
    users = sum(variant.users for variant in current.totals.get(EXPOSURES, {}).values())
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
) -> Iterator[tuple[Experiment, Totals]]:
    """Yield the started experiments with this very definition of the metric, and their totals."""
    if first is not None and definition in definitions_of(first.experiment):
        yield first.experiment, first.totals
    for experiment in Experiment.objects.in_environment(environment).started().order_by("-started_at", "-id"):
        if definition in definitions_of(experiment) and (first is None or experiment.pk != first.experiment.pk):
            bring_up_to_date(experiment, at)
            yield experiment, pool(read_phases(experiment), comparable_phases(experiment.phases))


def _in_experiment(definition: Definition, experiment: Experiment, totals: Totals, at: datetime) -> History | None:
    """Return the history from an experiment's control; None with few users, or without a usable baseline."""
    control, exposed = experiment.variant_keys[0], totals.get(EXPOSURES, {})
    compared = exposed.get(control, VariantTotals()).users
    begun = comparable_since(experiment.phases)
    if compared < FEWEST_USERS or begun is None:
        return None
    metric_index = definitions_of(experiment).index(definition)
    counted = totals.get(metric_index, {}).get(control, VariantTotals())
    mean, deviation = _moments(definition, sums_of(compared, counted))
    if mean is None:
        return None
    users = sum(variant.users for variant in exposed.values())
    end = experiment.stopped_at or at
    return History(begun, end, users, mean, deviation, experiment, mean_reach(experiment, begun, end))


def _moments(definition: Definition, sums: Sums) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation of one user, as in the results.

    The deviation of a rate is None. Both are None where they cannot be planned with, because nobody
    or everybody did it, or all values are equal.
    """
    sample = summarise(measure_of(definition).kind, sums)
    if isinstance(sample, Reason):
        return None, None
    kind = kind_of(definition)
    deviation = None if kind is Kind.RATE else sqrt(sample.variance)
    return (None, None) if any(check_measure(kind, sample.mean, deviation)) else (sample.mean, deviation)


def kind_of(definition: Definition) -> Kind:
    return Kind.RATE if definition.is_share else Kind.MEAN
