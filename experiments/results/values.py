"""The values of users: what each metric computes from the events of each exposed user, in one pass over the events.

One wide queryset has a row for each user, with a column for each figure of each metric. It becomes a row for each user
and metric (see `experiments.models.UserValue`), which is stored, or read without being stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    DateTimeField,
    F,
    FilteredRelation,
    IntegerField,
    Q,
    QuerySet,
    SmallIntegerField,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Least
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from config.database.selects import Column, Indicator, NonZero, Part, Select, rows_of, select_of, unpivoted
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, Experiment, Exposure, ResultState, UserValue
from experiments.results.expressions import AddSeconds, FloorSecond, IsOneOf, IsTrue, UTCDay
from experiments.results.metrics import FIGURES, ZERO, Figure, figures_of, is_of_any, not_after

_CLOCK_SKEW = timedelta(days=1)
"""By the clock of another host, an exposure may be a little before the start."""

VARIANT_NUMBER = Column("variant_number", SmallIntegerField())
_OF_EXPOSURE = ("user_id", "phase", "exposed_at")


def lookback_of(experiment: Experiment) -> timedelta:
    """Return how long before the exposure the history of a user counts, for CUPED: 0 where none is needed.

    It is registered at the start.
    """
    if experiment.started_at is None:
        return timedelta(days=experiment.lookback_days)
    return timedelta(days=(experiment.registration or {}).get("lookbackDays") or 0)


def earliest_event(experiment: Experiment) -> datetime:
    """Return the moment before which no event matters to an experiment. To a draft, none matters."""
    started_at = experiment.started_at or datetime.max.replace(tzinfo=UTC)
    return started_at - lookback_of(experiment) - _CLOCK_SKEW


def exposed_users(experiment: Experiment) -> QuerySet[Exposure]:
    """Return the exposures that count. An assignment that was under way during the stop may have a later moment."""
    exposures = Exposure.objects.filter(experiment=experiment).order_by()
    return exposures if experiment.stopped_at is None else exposures.filter(exposed_at__lte=experiment.stopped_at)


def in_several_variants(experiment: Experiment) -> Q:
    """Return whether the user of an exposure had seen another variant by the stop."""
    has_seen = Q(is_in_several_variants=True)
    if experiment.stopped_at is None:
        return has_seen
    return has_seen & (Q(in_several_since=None) | Q(in_several_since__lte=experiment.stopped_at))


def as_if_stopped(experiment: Experiment, moment: datetime) -> Experiment:
    """Return a copy of the experiment that was stopped at a moment, unless the experiment stopped before.

    What is computed from events is then as of that moment.
    """
    stopped = copy(experiment)
    stopped.stopped_at = moment if experiment.stopped_at is None else min(moment, experiment.stopped_at)
    stopped.counts_until = experiment.counted_by(moment)
    return stopped


@dataclass(frozen=True)
class Source:
    """Which exposures and events values are computed from.

    `exposures` may be rows of any origin that have the columns of an exposure. Events count that are of the environment
    and happened from `earliest` on, at most `lookback` before the exposure, and not after `until`, or for metrics with
    a window not after `windows_until` if that is later. Those that name an experiment must name it by one of the
    `references`; None stands for any. Values are those of the metrics in
    `definitions`, by number; those with a window count users who were exposed before `mature_by`, or all users. Events
    and exposures together must meet the `condition`. Values are those of each user and of the `keys`, which are
    expressions; without them, of the day of the exposure.
    """

    exposures: QuerySet[Exposure]
    definitions: Mapping[int, Definition]
    environment: int
    earliest: datetime
    variants: Sequence[str]
    references: Sequence[str] | None = None
    lookback: timedelta = ZERO
    until: datetime | None = None
    windows_until: datetime | None = None
    mature_by: Mapping[timedelta, datetime] | None = None
    condition: Q = Q()  # noqa: RUF009 (nobody changes it)
    keys: Mapping[str, Any] = field(default_factory=lambda: {"day": UTCDay(F("exposed_at"))})

    def of_metrics(self, numbers: Collection[int]) -> Source:
        return replace(self, definitions={number: self.definitions[number] for number in numbers})

    def of_users(self, users: Sequence[str]) -> Source:
        return replace(self, exposures=self.exposures.filter(IsOneOf(F("user_id"), users)))

    def with_events(self, names: Collection[str], *columns: str) -> QuerySet[Exposure]:
        """Return the exposures joined to the events of these names that matter: a row for each event.

        `metrics` has the columns of an event. The rows have these columns of the exposures besides.
        """
        counted_at = Least(F("happened__timestamp"), F("happened__received_at"))
        since = AddSeconds(FloorSecond(F("exposed_at")), Value(-(self.lookback // timedelta(seconds=1))))
        matters = Q(
            GreaterThanOrEqual(counted_at, since),
            happened__timestamp__gte=self.earliest,
            happened__received_at__gte=self.earliest,
        )
        if self.references is not None:
            matters &= Q(happened__experiment__in=self.own_references())
        if self.last_moment is not None:
            matters &= Q(LessThanOrEqual(counted_at, Value(self.last_moment)))
        return self.joined(names, *columns, matters=matters).filter(self.condition)

    def joined(self, names: Collection[str], *columns: str, matters: Q | None = None) -> QuerySet[Exposure]:
        """Return the exposures joined to all events of these names in the environment, or to those that matter."""
        # Without statistics, PostgreSQL might scan all events of a name for each user.
        has_name = IsTrue(Q(happened__name__in=sorted(names) or [""]))
        rows = self.exposures.filter(has_name, matters or Q(), happened__environment=self.environment)
        select = rows.values(*_OF_EXPOSURE, *columns).annotate(
            variant_number=self.variant_number(),
            event_name=F("happened__name"),
            reference=F("happened__experiment"),
            counted_at=Least(F("happened__timestamp"), F("happened__received_at")),
            properties=F("happened__properties"),
            base=FloorSecond(F("exposed_at")),
        )
        return rows_of(Exposure, select_of(select), is_fenced=True)

    def own_references(self) -> list[str]:
        """Return what an event may name that counts: this experiment, or none."""
        return ["", *(self.references or ())]

    def of_metric(self, definition: Definition, *columns: str) -> QuerySet[Exposure]:
        """Return the same with the events alone that one metric counts."""
        quantities = [definition.quantity, *definition.steps, *filter(None, [definition.denominator])]
        own = replace(self, definitions={0: definition})
        return own.with_events(definition.events, *columns).filter(is_of_any(quantities))

    def until_of(self, definition: Definition) -> datetime | None:
        """Return the moment after which no event counts for a metric; None while the experiment runs."""
        return self.until if definition.span is None else self.windows_until or self.until

    @property
    def last_moment(self) -> datetime | None:
        """Return the moment after which no event counts for any of the metrics."""
        ends = [*map(self.until_of, self.definitions.values())]
        return None if None in ends else max(filter(None, ends), default=self.until)

    def figures(self, number: int) -> Mapping[str, Figure]:
        """Return the figures of a metric that can differ from 0."""
        definition = self.definitions[number]
        counts, until = Q(), self.until_of(definition)
        if self.mature_by is not None and definition.span is not None:
            counts &= Q(exposed_at__lt=self.mature_by[definition.span])
        if until is not None and until != self.last_moment:
            counts &= not_after(until)
        return figures_of(definition, has_history=bool(self.lookback), counts=counts)

    def variant_number(self) -> Case:
        """Return the number of the exposure's variant, in the order of the experiment."""
        whens = [When(variant=key, then=Value(number)) for number, key in enumerate(self.variants)]
        return Case(*whens, output_field=SmallIntegerField())


def source_of(experiment: Experiment) -> Source:
    """Return what the values of an experiment are computed from; no user was exposed to a draft."""
    return Source(
        exposures=exposed_users(experiment),
        definitions=dict(enumerate(definitions_of(experiment))),
        environment=experiment.environment_id,
        earliest=earliest_event(experiment),
        variants=experiment.variant_keys,
        references=experiment.references(),
        lookback=lookback_of(experiment),
        until=experiment.stopped_at,
        windows_until=experiment.counting_ends_at,
    )


def select_values(source: Source) -> Select:
    """Return a SELECT of the values of all users by all metrics, as `UserValue` has them. There must be a metric."""
    names = frozenset[str]().union(*(definition.events for definition in source.definitions.values()))
    figures = {
        column_of(number, name): figure.expression()
        for number in source.definitions
        for name, figure in source.figures(number).items()
    }
    rows = source.with_events(names).values(*_OF_EXPOSURE, variant_number=VARIANT_NUMBER)
    wide = rows.annotate(**source.keys, **figures)
    parts = [
        Part(number, sources_of(number, definition, source.figures(number)), is_flagged=is_ranked(definition))
        for number, definition in source.definitions.items()
    ]
    return unpivoted(UserValue, select_of(wide), ("user_id", "variant_number", "phase", *source.keys), parts, FIGURES)


def column_of(number: int, name: str) -> str:
    """Return the column of a wide row that has a figure of a metric."""
    return f"m{number}_{name}"


def sources_of(
    number: int, definition: Definition, figures: Mapping[str, Figure]
) -> dict[str, str | NonZero | Indicator]:
    """Return where the fields of a row of one metric come from in a wide row."""
    sources: dict[str, str | NonZero | Indicator] = {name: NonZero(column_of(number, name)) for name in figures}
    if definition.steps:
        sources["value"] = Indicator(column_of(number, "steps"), len(definition.steps))
    return sources


def select_exposures(source: Source, experiment: Experiment) -> Select:
    """Return a SELECT of the exposures, as `UserValue` has them."""
    several = Case(When(in_several_variants(experiment), then=Value(True)))
    rows = source.exposures.values(*_OF_EXPOSURE).annotate(
        variant_number=source.variant_number(),
        **source.keys,
        metric=Value(EXPOSURE, IntegerField()),
        in_several_variants=several,
    )
    return select_of(rows)


def is_ranked(definition: Definition) -> bool:
    """Return whether the values of a metric are in the index by which a cap at a percentile is found."""
    return definition.cap_percentile is not None


def group_columns(names: Collection[str]) -> Mapping[str, Column]:
    """Return the columns that are no fields of an exposure: numbers of the groups of users."""
    fields = {field.name for field in Exposure._meta.concrete_fields}
    return {name: Column(name, IntegerField()) for name in names if name not in fields}


def computed_values(source: Source) -> QuerySet[UserValue]:
    """Return the values of all users by all metrics, computed from events alone.

    Nothing is stored. The rows have no exposures.
    """
    return rows_of(UserValue, select_values(source)) if source.definitions else UserValue.objects.none()


def stored_values(experiment: Experiment, users: Sequence[str] | None = None) -> QuerySet[UserValue]:
    """Return the stored values, exposures included, of some users or of all."""
    rows = UserValue.objects.filter(state=state_of(experiment)).order_by()
    return rows if users is None else rows.filter(IsOneOf(F("user_id"), users))


def state_of(experiment: Experiment) -> ResultState | None:
    """Return the state whose values are those of the experiment; None before the first refresh."""
    return getattr(experiment, "result_state", None)


def with_exposures(rows: QuerySet[UserValue], experiment: Experiment) -> QuerySet[UserValue]:
    """Return values of an experiment joined to the exposures of their users in it, as `own_exposure`."""
    is_own = Q(exposure__experiment=experiment)
    return rows.annotate(own_exposure=FilteredRelation("exposure", condition=is_own))


def stored_exposures(experiment: Experiment) -> QuerySet[Exposure]:
    """Return the exposures as the sums count them."""
    whens = [When(variant_number=number, then=Value(key)) for number, key in enumerate(experiment.variant_keys)]
    rows = with_exposures(stored_values(experiment).filter(metric=EXPOSURE), experiment).values(*_OF_EXPOSURE)
    select = select_of(
        rows.annotate(
            variant=Case(*whens, output_field=TextField()),
            attributes=F("own_exposure__attributes"),
            is_in_several_variants=Coalesce(F("in_several_variants"), Value(False)),
            in_several_since=Cast(Value(None), DateTimeField()),
        )
    )
    exposures = rows_of(Exposure, select)
    # Where the experiment is read as if it had stopped earlier, there are later users, too.
    return exposures if experiment.stopped_at is None else exposures.filter(exposed_at__lte=experiment.stopped_at)
