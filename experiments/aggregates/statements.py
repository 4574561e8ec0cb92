"""The statements that compute the totals of exposed users from their events, and that write and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from config.database.commit_order import arrived_by
from events.counts.storage import quarter_of
from events.models import Event, EventCount
from experiments.aggregates.dialects import Parameters, dialect, execute, fetch, figures, is_chosen, planned
from experiments.aggregates.metric_columns import Layout, columns_of, since_exposure
from experiments.aggregates.near_caps import Bounds, is_near_cap
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, UserTotal

_SKEW = timedelta(days=1)
"""By the clock of another host, an exposure may be a little before the start."""

_OF_USER = "user_id, variant, phase, exposed_at, is_in_several_variants"
Users = Sequence[str] | None
"""User ids; None means all users."""


def lookback_of(experiment: Experiment) -> timedelta:
    """Return how long before the exposure the history of a user counts, for CUPED: 0 where none is needed.

    It is registered at the start. Experiments that started before it could be chosen need no history.
    """
    if experiment.started_at is None:
        return timedelta(days=experiment.lookback_days)
    return timedelta(days=(experiment.registration or {}).get("lookbackDays") or 0)


def earliest_event(experiment: Experiment) -> datetime:
    """Return the moment before which no event matters to a started experiment."""
    assert experiment.started_at is not None  # noqa: S101 (drafts have no totals)
    return experiment.started_at - lookback_of(experiment) - _SKEW


def exposed_users(experiment: Experiment) -> QuerySet[Exposure]:
    """Return the exposures that count. An assignment that was under way during the stop may have a later moment."""
    exposed = Exposure.objects.filter(experiment=experiment)
    return exposed if experiment.stopped_at is None else exposed.filter(exposed_at__lte=experiment.stopped_at)


class TotalsQuery:
    """The SQL that computes totals from events and exposures, with its parameters.

    Only events count that were visible when the mark `until` was taken, or all without one.
    """

    def __init__(self, experiment: Experiment, until: str = "") -> None:
        self.experiment, self.definitions = experiment, definitions_of(experiment)
        self.lookback = lookback_of(experiment)
        self.parameters = Parameters()
        self._put = self.parameters.put
        self._until = until

    def totals(self, users: Users) -> str:
        """Return SQL for user_id, variant, phase, exposed_at, is_in_several_variants and figures of these users."""
        columns = columns_of(self.definitions, self._put, has_history=bool(self.lookback))
        named = {column.aggregate: f"aggregate_{at}" for at, column in enumerate(columns) if column.aggregate}
        aggregates = "".join(f", {aggregate} AS {name}" for aggregate, name in named.items())
        computed = figures(column.figure.format(named.get(column.aggregate)) for column in columns)
        # The other columns depend on the primary key. Without the fence, PostgreSQL would build the array once for each
        # sum of a figure.
        return f"""
            SELECT {_OF_USER}, {computed} AS figures{dialect().fence_column} FROM (
                SELECT exposed.user_id, exposed.variant, phase, exposed_at,
                    {self._is_in_several()} AS is_in_several_variants{aggregates}
                FROM {Exposure._meta.db_table} AS exposed LEFT JOIN {Event._meta.db_table} AS happened
                    ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())}
                WHERE {self._is_exposed(users)}
                GROUP BY experiment_id, exposed.user_id
            ) AS aggregated {dialect().fence}
        """  # noqa: S608 (no data)

    def _is_in_several(self) -> str:
        """Return SQL for whether the user had seen another variant by the stop."""
        if self.experiment.stopped_at is None:
            return "is_in_several_variants"
        until = self._put(self.experiment.stopped_at)
        return f"is_in_several_variants AND (in_several_since IS NULL OR in_several_since <= {until})"

    def _is_exposed(self, users: Users) -> str:
        conditions = [f"experiment_id = {self._put(self.experiment.pk)}"]
        if users is not None:
            conditions.append(is_chosen("exposed.user_id", users, self._put))
        if self.experiment.stopped_at is not None:
            conditions.append(f"exposed_at <= {self._put(self.experiment.stopped_at)}")
        return " AND ".join(conditions)

    def _matters(self) -> Iterator[str]:
        """Yield the conditions on an event and an exposure."""
        yield from self._is_relevant()
        yield self._is_since_lookback()
        if self._until:
            yield self._fill_in(*arrived_by(self._until, "happened.arrival"))

    def _is_relevant(self) -> Iterator[str]:
        """Yield the conditions on an event alone."""
        experiment, earliest, own = self.experiment, self._put(earliest_event(self.experiment)), dialect()
        names = sorted(self._names()) or [""]  # every event has a name
        yield f"environment_id = {self._put(experiment.environment_id)}"
        # `IS TRUE` avoids the index on names: without statistics, PostgreSQL may scan all events of a name per user.
        yield f"(name IN ({self._each(names)})) IS TRUE"
        yield f"experiment IN ({self._each(['', *experiment.references()])})"
        yield f"timestamp >= {earliest} AND received_at >= {earliest}"
        if experiment.stopped_at is not None:
            yield f"{own.counted_at} <= {self._put(experiment.stopped_at)}"

    def _names(self) -> set[str]:
        return {name for definition in self.definitions for name in definition.events}

    def _is_since_lookback(self) -> str:
        return f"{dialect().counted_at} >= {since_exposure(-self.lookback, self._put)}"

    def _fill_in(self, condition: str, values: Iterable[Any]) -> str:
        """Add the parameters of a condition with `%s` in their places."""
        return condition % tuple(map(self._put, values))

    def _each(self, values: Iterable[str]) -> str:
        return ", ".join(map(self._put, values))


_TABLE = UserTotal._meta.db_table
_COLUMNS = f"experiment_id, {_OF_USER}, figures, is_near_cap"
_OR_REPLACE = """
    WHERE TRUE ON CONFLICT (experiment_id, user_id) DO UPDATE SET
        variant = excluded.variant, phase = excluded.phase, exposed_at = excluded.exposed_at,
        is_in_several_variants = excluded.is_in_several_variants, figures = excluded.figures,
        is_near_cap = excluded.is_near_cap
    RETURNING user_id
"""

BY_INDEX = {
    **dict.fromkeys(("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_sort"), "off"),
    "work_mem": "64MB",
}
"""Planner settings for the events of some users: an index lookup for each user."""
IN_ONE_PASS = {
    **dict.fromkeys(("enable_nestloop", "enable_mergejoin", "enable_sort", "jit"), "off"),
    "work_mem": "256MB",
}
"""Planner settings for the events of all users: one scan, joined with the exposures by a hash table."""
IN_ONE_SORTED_PASS = {**IN_ONE_PASS, "enable_sort": "on"}
"""The same for statements that need an order. If no sort were allowed, either, a nested loop would cost no more."""

_EVENTS_A_USER = 30
"""One pass reads this many events in the time in which an index finds the events of one user."""


def is_quicker_in_one_pass(experiment: Experiment, users: int) -> bool:
    """Return whether scanning all events is quicker than looking up this many users, from the counts of events."""
    if not users:
        return False
    since = quarter_of(earliest_event(experiment))
    counts = EventCount.objects.filter(environment=experiment.environment_id, quarter__gte=since)
    events: int = counts.aggregate(events=Sum("count"))["events"] or 0
    return users * _EVENTS_A_USER > events


def write_totals(experiment: Experiment, users: Users, until: str, bounds: Bounds) -> None:
    """Compute and store the totals of these users, or of all where none are stored yet, as of a mark.

    Users who are not exposed have no totals afterwards. Those with a value above one of the bounds are marked.
    """
    query = TotalsQuery(experiment, until)
    experiment_id = query.parameters.put(experiment.pk)
    is_near = is_near_cap(bounds, Layout(query.definitions).figure, query.parameters.put)
    computed = f"SELECT {experiment_id}, {_OF_USER}, figures, {is_near} FROM ({query.totals(users)}) AS computed"  # noqa: S608 (no data)
    statement = f"INSERT INTO {_TABLE} ({_COLUMNS}) {computed}"
    if users is None:
        with planned(**IN_ONE_PASS):
            execute(statement, query.parameters)
        return
    with planned(**BY_INDEX):
        written = fetch(f"{statement} {_OR_REPLACE}", query.parameters)
    if others := {*users}.difference(user_id for (user_id,) in written):
        delete_totals(experiment, sorted(others))


def delete_totals(experiment: Experiment, users: Sequence[str]) -> None:
    """Delete the totals of these users."""
    parameters = Parameters()
    condition = f"experiment_id = {parameters.put(experiment.pk)} AND {is_chosen('user_id', users, parameters.put)}"
    execute(f"DELETE FROM {_TABLE} WHERE {condition}", parameters)  # noqa: S608 (no data)
