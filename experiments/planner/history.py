"""What is known of a metric before a plan, from this experiment, from the newest other one, or from events.

The totals of this experiment are read once, so that the users a day, the history and the forecast of a plan agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import sqrt

from django.db import transaction
from django.db.models import CharField, F, IntegerField, Min, Value
from django.db.models.functions import MD5

from config.database.planning import BY_INDEX, planned
from config.database.selects import rows_of, select_of
from config.database.transactions import read_consistently
from config.models import Environment
from events.models import Event
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, Experiment, Exposure
from experiments.models.phases import comparable_phases, comparable_since, mean_reach, reach_of
from experiments.planner.question import MAX_REDUCTION, BaselineKind, check_measure
from experiments.results.caps import find_cap
from experiments.results.expressions import IsOneOf
from experiments.results.maturity import read_mature
from experiments.results.metrics import ZERO
from experiments.results.quantiles import read_quantiles
from experiments.results.refresh import bring_up_to_date
from experiments.results.study import measure_of
from experiments.results.sums import ExactSums, Summing, read_caps, read_daily, sum_values
from experiments.results.user_groups import Counted, UserGroup, pooled, sums_of
from experiments.results.values import Source, computed_values
from experiments.stats.samples import summarise
from experiments.stats.types import Quantile, Reason, Sums


@dataclass(frozen=True, slots=True)
class CurrentTotals:
    """The users of a started experiment with their sums, and by variant the users exposed on each day.

    All are of the same moment, and cover the comparable phases.
    """

    experiment: Experiment
    users: UserGroup
    exposed: Mapping[str, Mapping[date, ExactSums]]


def read_current_totals(experiment: Experiment, now: datetime) -> CurrentTotals | None:
    """Return the totals with everything that is committed; None for a draft."""
    if experiment.started_at is None:
        return None
    bring_up_to_date(experiment, now)
    with read_consistently():
        daily = read_daily(experiment, comparable_phases(experiment.phases))
        return CurrentTotals(experiment, read_counted_users(experiment, now), daily.get(EXPOSURE, {}))


def read_counted_users(experiment: Experiment, now: datetime) -> UserGroup:
    """Return the users of the comparable phases. Metrics with a window count only users whose window is over.

    The results must be refreshed.
    """
    reading = read_mature(experiment, now, read_caps(experiment))
    windowed = [index for index, definition in enumerate(reading.definitions) if definition.counts_mature_users]
    groups = {
        phase: UserGroup(
            sums,
            {
                index: Counted(reading.users_of(index, phase), reading.sums.by_phase.get(phase, {}).get(index, {}))
                for index in windowed
            },
        )
        for phase, sums in reading.everybody.items()
    }
    phases = comparable_phases(experiment.phases)
    return replace(pooled(groups, phases), quantiles=read_quantiles(experiment, now, phases))


def variant_shares(experiment: Experiment) -> Mapping[str, Fraction]:
    """Return the exact share of users of each variant, by key. Variants of weight 0 are left out."""
    weights = {variant["key"]: Fraction(variant["weight"]) for variant in experiment.variants if variant["weight"]}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


MIN_USERS = 100
"""An experiment serves as history if its control has at least this many users."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class History:
    """The values of a metric for users between two times, in an experiment or in the whole environment.

    `baseline` and `standard_deviation` are those of one user; in an experiment, of one user of the control. `baseline`
    is None if a plan cannot use it, for example because nobody did what the metric counts. `standard_deviation` is None
    for rates. `variance_reduction` is the share of the variance that CUPED removed; None without an experiment, or
    without anything before the exposures. `users` are those of all variants, in an experiment those of the covered
    phases. `reach` is the share of all users (0 to 1) that the experiment let in at that time.
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
        """Return the users a day, scaled to the share of users that an experiment lets in.

        Without an experiment, return the users a day of this history.
        """
        if experiment is None:
            return self.users_per_day
        return self.users_per_day / self.reach * reach_of(experiment) or None if self.reach else None


def history_of(
    definition: Definition, environment: Environment, now: datetime, current: CurrentTotals | None = None
) -> History | None:
    """Return the history from this experiment, else from the newest other one, else from events; None without users.

    Experiments with few users in the control, or without a usable baseline, are skipped.
    """
    for experiment, users in _measuring(definition, environment, now, current):
        if history := _in_experiment(definition, experiment, users, now):
            return history
    with read_consistently():
        sample = sample_events(definition, environment, now)
    if sample is None:
        return None
    # A sample says nothing of the standard error of a quantile.
    mean_and_deviation = (None, None) if definition.type == "quantile" else _mean_and_deviation(definition, sample.sums)
    return History(sample.start, sample.end, sample.users, *mean_and_deviation)


def pace_of(current: CurrentTotals, now: datetime) -> float | None:
    """Return the users a day of an experiment, scaled to the share that it lets in now; None without users."""
    experiment = current.experiment
    users = sum(current.users.users.values())
    begun, end = comparable_since(experiment.phases), experiment.stopped_at or now
    if begun is None or not users:
        return None
    reach = mean_reach(experiment, begun, end)
    return _pace(users, begun, end) / reach * reach_of(experiment) if reach else None


def _pace(users: int, start: datetime, end: datetime) -> float:
    """Return the users a day. The time counts as at least a day, because an hour says little about a day."""
    return users / max(1.0, (end - start) / _DAY)


def _measuring(
    definition: Definition, environment: Environment, now: datetime, first: CurrentTotals | None
) -> Iterator[tuple[Experiment, UserGroup]]:
    """Yield the started experiments that measure this very definition, with their users."""
    if first is not None and definition in definitions_of(first.experiment):
        yield first.experiment, first.users
    for experiment in Experiment.objects.in_environment(environment).started().order_by("-started_at", "-id"):
        if definition in definitions_of(experiment) and (first is None or experiment.pk != first.experiment.pk):
            bring_up_to_date(experiment, now)
            with read_consistently():
                counting = read_counted_users(experiment, now)
            yield experiment, counting


def _inputs(
    definition: Definition, experiment: Experiment, group: UserGroup, now: datetime
) -> Mapping[str, Sums] | Mapping[str, Quantile]:
    """Return the input of the statistics for the metric, by variant. Quantiles that are not stored come from events."""
    metric_index = definitions_of(experiment).index(definition)
    if definition.type != "quantile":
        return group.sums_of(metric_index)
    return read_quantiles(experiment, now, comparable_phases(experiment.phases)).get(metric_index, {})


def _in_experiment(definition: Definition, experiment: Experiment, group: UserGroup, now: datetime) -> History | None:
    """Return the history from an experiment's control; None with few users, or without a usable baseline.

    Users whose window is open count for the users a day, but not for the baseline.
    """
    sums = _inputs(definition, experiment, group, now)
    control = sums.get(experiment.variant_keys[0])
    begun = comparable_since(experiment.phases)
    if control is None or control.n < MIN_USERS or begun is None:
        return None
    mean, deviation = _mean_and_deviation(definition, control)
    if mean is None:
        return None
    users = sum(group.users.values())
    end = experiment.stopped_at or now
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
    return None if isinstance(adjustment, Reason) else min(adjustment.variance_reduction, MAX_REDUCTION)


def reduction_for(history: History, experiment: Experiment | None) -> float:
    """Return the reduction of the variance to expect in an experiment, or in a new one with the default plan.

    It is 0 if nothing is known, or if the experiment does not look back.
    """
    return (history.variance_reduction or 0.0) if experiment is None or _looks_back(experiment) else 0.0


def _looks_back(experiment: Experiment) -> bool:
    """Return whether CUPED decides. A start registers it; an experiment from before that does not use it."""
    if experiment.started_at is None:
        return experiment.lookback_days > 0
    return bool((experiment.registration or {}).get("lookbackDays", 0))


def _mean_and_deviation(definition: Definition, sums: Sums | Quantile) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation of one user, as in the results.

    For a quantile, the deviation is its standard error times the root of the number of users. For a rate, it is None.
    Both are None if a plan cannot use them: nobody or everybody did it, or all values are equal.
    """
    sample = summarise(measure_of(definition).kind, sums)
    if isinstance(sample, Reason):
        return None, None
    kind = kind_of(definition)
    deviation = None if kind is BaselineKind.RATE else sqrt(sample.variance)
    return (None, None) if any(check_measure(kind, sample.mean, deviation)) else (sample.mean, deviation)


def kind_of(definition: Definition) -> BaselineKind:
    return BaselineKind.RATE if definition.is_share else BaselineKind.MEAN


PERIOD = timedelta(days=28)
MAX_SAMPLED_USERS = 10_000
_VARIANT = "sample"


@dataclass(frozen=True, slots=True)
class EventSample:
    """The sums of a sample of users. `users` counts all users between `start` and `end`."""

    start: datetime
    end: datetime
    users: int
    sums: Sums


def sample_events(definition: Definition, environment: Environment, now: datetime) -> EventSample | None:
    """Measure up to 10,000 users, drawn by a hash of their ids. Their first event counts as exposure.

    The period has 28 days, or fewer if the events are younger. It ends early enough that the windows of all users are
    over. Return None if there are no users.
    """
    span = definition.delay + (definition.window or ZERO)
    end = now - span
    since = Event.objects.filter(environment=environment, timestamp__gte=end - PERIOD, timestamp__lte=now).order_by()
    # Only columns of an index are used, so that the database reads the index alone.
    users = since.values("user_id").annotate(first=Min("timestamp")).filter(first__lte=end)
    drawn = dict(users.order_by(MD5("user_id"), "user_id").values_list("user_id", "first")[:MAX_SAMPLED_USERS])
    if not drawn:
        return None
    # Counted in the same statement, all users would go through the coordinator of Citus.
    number = len(drawn) if len(drawn) < MAX_SAMPLED_USERS else users.count()
    exposures = (
        since.filter(IsOneOf(F("user_id"), [*drawn]))
        .values("user_id")
        .annotate(
            exposed_at=Min("timestamp"),
            variant=Value(_VARIANT, CharField()),
            phase=Value(1, IntegerField()),
        )
    )
    source = Source(
        exposures=rows_of(Exposure, select_of(exposures)),
        definitions={0: definition},
        environment=environment.pk,
        earliest=end - PERIOD,
        variants=[_VARIANT],
        until=now,
    )
    with transaction.atomic(), planned(**BY_INDEX):
        values = computed_values(source)
        cap = find_cap(definition, values)
        summing = Summing(source.definitions, {} if cap is None else {0: cap}, source.variants, has_history=False)
        sums = sum_values(values, summing, ()).get((0, _VARIANT), ExactSums())
    return EventSample(max(end - PERIOD, min(drawn.values())), end, number, sums_of(len(drawn), sums))
