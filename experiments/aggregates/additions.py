"""Adding the events between two marks to the totals of users, for metrics whose figures add up.

Marks divide events (see `config.database.commit_order`), so that each event is added once. Metrics that do not add up
keep their figures: users with new events of these metrics are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from config.database.commit_order import arrived_between
from config.database.engines import Engine, engine
from events.models import Event
from experiments.aggregates.dialects import dialect, execute, figures, planned
from experiments.aggregates.metric_columns import UNCHANGED, Column, Layout, adds_up, columns_of, names_computed_again
from experiments.aggregates.near_caps import Bounds, is_near_cap
from experiments.aggregates.statements import TotalsQuery
from experiments.aggregates.sum_statements import Counted, as_day, counted, keys_of_days, sum_changes
from experiments.aggregates.variant_sums import Caps, DailySums, Sums
from experiments.models import Experiment, UserTotal

_TABLE = UserTotal._meta.db_table
_EXPOSURE = "user_id, variant, phase, exposed_at, is_in_several_variants"
_PLAN = {
    **dict.fromkeys(("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_sort", "enable_memoize"), "off"),
    "work_mem": "64MB",
}
"""Planner settings: the users of new events in their order, with an index lookup for each (see `Dialect.looked_up`)."""


class Addition(NamedTuple):
    """By how much sums change, by metric index, variant, phase and day.

    `uncertain` is the id of a user one of whose values has become smaller. As a small difference of large values, it
    may have lost its last digits, so the user must be computed again.
    """

    sums: DailySums
    uncertain: str | None


class AdditionsQuery(TotalsQuery):
    """The SQL that adds the events that arrived between two marks to the totals of their users."""

    def __init__(self, experiment: Experiment, since: str, until: str) -> None:
        super().__init__(experiment, until)
        self._since = since
        self._layout = Layout(self.definitions)
        self._bounds: Bounds = {}
        self._position = {column: position for position, column in enumerate(self._layout.columns)}

    def add(self, caps: Caps, bounds: Bounds) -> Iterator[Addition]:
        """Store the totals, and yield by how much the sums over their users change.

        Users with a value above one of the bounds are marked.
        """
        self._bounds = bounds
        metrics = [
            (self._named(metric, "before"), self._named(metric, "now"))
            for metric in counted(self.experiment, caps)
            if adds_up(metric.definition)
        ]
        keys = [*keys_of_days(), f"CASE WHEN {self._shrinks()} THEN user_id END"]

        def sum_added(given: str) -> Sums:
            return sum_changes("added", keys, metrics, self.parameters, given)

        with planned(**_PLAN):
            summed = self._write_and_sum(sum_added)
        for (label, variant, phase, day, user_id), sums in summed.items():
            yield Addition({(label, variant, phase, as_day(day)): sums}, user_id)

    def _write_and_sum(self, sum_added: Callable[[str], Sums]) -> Sums:
        """Write what is added, and return the sums over it, which a function computes that is given the table `added`.

        PostgreSQL does both in one statement, so that it reads the events once, and each total while it writes it. On
        Citus, that would send all of these users to the coordinator.
        """
        additions = self._additions()
        if engine() is Engine.POSTGRESQL:
            return sum_added(f"WITH added AS ({self._write(additions)} RETURNING addition.*)")
        sums = sum_added(f"WITH added AS ({additions})")
        execute(self._write(additions), self.parameters)
        return sums

    def _named(self, metric: Counted, when: str) -> Counted:
        """Return the metric with figures that have columns of their own: before the new events, or now."""
        return replace(metric, figure=lambda name: f"{when}_{self._position[metric.label, name]}")

    def _additions(self) -> str:
        """Return SQL for the users of new events: the place of their totals, exposures, and figures before and now."""
        named: dict[str, str] = {}
        before, now = [], []
        for position, (old, column) in enumerate(self._columns()):
            aggregate = named.setdefault(column.aggregate, f"aggregate_{len(named)}") if column.aggregate else ""
            before.append(f", {old} AS before_{position}")
            added = dialect().stored.format(column.added.format(f"before_{position}", aggregate))
            now.append(f", before_{position}, {added} AS now_{position}")
        aggregates = "".join(f", {aggregate} AS {name}" for aggregate, name in named.items())
        exposed = ", ".join(f"exposed.{name}" for name in _EXPOSURE.split(", "))
        totals = dialect().looked_up.format(
            table=_TABLE,
            name="exposed",
            columns=f"{dialect().place}, {_EXPOSURE}, figures",
            experiment=self._put(self.experiment.pk),
            user="happened.user_id",
        )
        # PostgreSQL cannot know that the other columns depend on the user. SQLite does not ask, and would sort by them.
        row = "exposed.user_id" if engine() is Engine.SQLITE else f"{exposed}, exposed.{dialect().place}, figures"
        return f"""
            SELECT place, {_EXPOSURE}{"".join(now)}{dialect().fence_column}
            FROM (
                SELECT exposed.{dialect().place} AS place, {exposed}{"".join(before)}{aggregates}
                FROM ({self._new_events()}) AS happened {totals}
                WHERE {self._is_since_lookback()}
                GROUP BY {row}
            ) AS aggregated {dialect().fence}
        """  # noqa: S608 (no data)

    def _shrinks(self) -> str:
        """Return SQL that says whether a value that may lose digits has become smaller."""
        rounded = [position for position, (_, column) in enumerate(self._columns()) if column.is_rounded]
        return " OR ".join(f"ABS(now_{position}) < ABS(before_{position})" for position in rounded) or "FALSE"

    def _columns(self) -> Iterator[tuple[str, Column]]:
        """Yield SQL for the old figure of each column, and how to add to it."""
        columns = columns_of(self.definitions, self._put, has_history=bool(self.lookback))
        for (metric_index, name), column in zip(self._layout.columns, columns, strict=True):
            old = self._layout.figure(metric_index, name, "exposed.figures")
            yield old, column if adds_up(self.definitions[metric_index]) else UNCHANGED

    def _new_events(self) -> str:
        """Return SQL for the new events, ordered by user, so that neighbours are looked up one after the other."""
        columns = "id, user_id, name, timestamp, received_at, properties, environment_id, experiment"
        # Only the index on `arrival` finds these quickly.
        arrived = " UNION ALL ".join(
            f"SELECT {columns} FROM {Event._meta.db_table} WHERE {self._fill_in(*condition)}"  # noqa: S608 (no data)
            for condition in arrived_between(self._since, self._until, "arrival")
        )
        return f"""
            SELECT * FROM (SELECT *{dialect().fence_column} FROM ({arrived}) AS parts {dialect().fence}) AS arrived
            WHERE {" AND ".join(self._is_relevant())} ORDER BY user_id {dialect().fence}
        """  # noqa: S608 (no data)

    def _names(self) -> set[str]:
        return super()._names() - names_computed_again(self.definitions)

    def _now(self, metric_index: int, name: str) -> str:
        position = self._position.get((metric_index, name))
        return "0" if position is None else f"now_{position}"

    def _write(self, additions: str) -> str:
        """Return SQL that stores what is added. It has no condition on the experiment.

        If PostgreSQL expected one total of the experiment, it would read all additions again for each of them.
        """
        now = figures(f"now_{position}" for position in self._position.values())
        is_near = is_near_cap(self._bounds, self._now, self._put)
        # Citus only joins by users, for which there is no index. All rows exist, so that this updates them.
        if engine() is Engine.CITUS:
            return f"""
                INSERT INTO {_TABLE} AS total (experiment_id, {_EXPOSURE}, figures, is_near_cap)
                SELECT {self._put(self.experiment.pk)}, {_EXPOSURE}, {now}, {is_near} FROM ({additions}) AS addition
                WHERE TRUE ON CONFLICT (experiment_id, user_id) DO UPDATE SET
                    figures = excluded.figures, is_near_cap = total.is_near_cap OR excluded.is_near_cap
            """  # noqa: S608 (no data)
        return f"""
            UPDATE {_TABLE} AS total SET figures = {now}, is_near_cap = is_near_cap OR {is_near}
            FROM ({additions}) AS addition WHERE total.{dialect().place} = addition.place
        """  # noqa: S608 (no data)
