"""The statements behind series and behind the sums as of a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import copy
from datetime import date, datetime
from functools import partial

from config.database.commit_order import arrived_since
from events.models import Event
from experiments.aggregates.dialects import dialect, fetch, figures
from experiments.aggregates.event_conditions import is_of
from experiments.aggregates.metric_columns import Layout, amount_of, columns_of
from experiments.aggregates.statements import TotalsQuery
from experiments.aggregates.sum_statements import Counted, as_day, sum_changes
from experiments.aggregates.variant_sums import Caps, DailySums
from experiments.metrics.definition import Definition
from experiments.models import Experiment, Exposure, SeriesUser, UserTotal

_EXPOSURE = "user_id, variant, phase, exposed_at, is_in_several_variants"


class ChangesQuery(TotalsQuery):
    """The SQL that computes by how much the sums of some metrics change on each day before the day `until`.

    It counts the events that were visible when the mark was taken, or all without one. A stop does not matter,
    because the days before it are the same without it.
    """

    def __init__(self, experiment: Experiment, metric_indexes: Collection[int], until: date, mark: str = "") -> None:
        running = copy(experiment)
        running.stopped_at = None
        super().__init__(running, mark)
        self.metric_indexes, self._until_day = sorted(metric_indexes), until
        self.definitions = [self.definitions[index] for index in self.metric_indexes]

    def exposures_of_totals(self) -> str:
        """Return SQL for the exposures of all users who have totals."""
        return f"""(
            SELECT {_EXPOSURE} FROM {UserTotal._meta.db_table} WHERE experiment_id = {self._put(self.experiment.pk)}
        )"""  # noqa: S608 (no data)

    def exposures_until(self, moment: datetime) -> str:
        """Return SQL for the exposures until a moment, whether their users have totals or not."""
        return f"""(
            SELECT {_EXPOSURE} FROM {Exposure._meta.db_table}
            WHERE experiment_id = {self._put(self.experiment.pk)} AND exposed_at <= {self._put(moment)}
        )"""  # noqa: S608 (no data)

    def exposures_of_outdated(self, user_id: str | None = None) -> str:
        """Return SQL for the exposures that the daily changes count of the outdated users, or of one of them."""
        one = "" if user_id is None else f" AND user_id = {self._put(user_id)}"
        return f"""(
            SELECT {_EXPOSURE} FROM {SeriesUser._meta.db_table}
            WHERE experiment_id = {self._put(self.experiment.pk)} AND exposed_at IS NOT NULL{one}
        )"""  # noqa: S608 (no data)

    def present_exposures_of_outdated(self) -> str:
        """Return SQL for the exposures that the totals count of the outdated users."""
        experiment_id = self._put(self.experiment.pk)
        return f"""(
            SELECT {_EXPOSURE} FROM {UserTotal._meta.db_table} WHERE experiment_id = {experiment_id}
                AND user_id IN (
                    SELECT user_id FROM {SeriesUser._meta.db_table} WHERE experiment_id = {experiment_id}
                )
        )"""  # noqa: S608 (no data)

    def changes(self, exposures: str, caps: Caps, since: date | None = None) -> DailySums:
        """Return the changes of the sums over the users with these exposures, on all days, or from one day on."""
        metrics = [*zip(self._counted(caps, "figures_before"), self._counted(caps, "figures"), strict=True)]
        rows = f"({self._days(exposures)}) AS days"
        if since is not None:
            rows = f"{rows} WHERE day >= {self._put(since.isoformat())}"
        summed = sum_changes(rows, ["variant", "phase", "day"], metrics, self.parameters)
        return {
            (index, variant, phase, as_day(day)): sums
            for (index, variant, phase, day), sums in summed.items()
            if any(sums.values())
        }

    def _counted(self, caps: Caps, row: str) -> Iterator[Counted]:
        layout, has_history = Layout(self.definitions), bool(self.lookback)
        for at, (index, definition) in enumerate(zip(self.metric_indexes, self.definitions, strict=True)):
            figure = partial(layout.figure, at, row=row)
            yield Counted(index, definition, caps.get(index), figure, has_history=has_history)

    def _days(self, exposures: str) -> str:
        """Return SQL for the figures of each user at the end of each day that changes them, and on the one before.

        An event before the exposure counts from the day of the exposure on.
        """
        columns = columns_of(self.definitions, self._put, has_history=bool(self.lookback))
        named = {column.aggregate: f"aggregate_{at}" for at, column in enumerate(columns) if column.aggregate}
        aggregates = "".join(f", {aggregate} OVER until_day AS {name}" for aggregate, name in named.items())
        computed = figures(column.figure.format(named.get(column.aggregate)) for column in columns)
        return f"""
            SELECT {_EXPOSURE}, day, figures, LAG(figures) OVER (PARTITION BY user_id ORDER BY day) AS figures_before
            FROM (
                SELECT {_EXPOSURE}, day, {computed} AS figures FROM (
                    SELECT {_EXPOSURE}, day, LEAD(day) OVER until_day AS next_day{aggregates}
                    FROM ({self._happened(exposures)}) AS happened
                    WINDOW until_day AS (PARTITION BY user_id ORDER BY day)
                ) AS by_event
                WHERE next_day IS NULL OR next_day > day
            ) AS ended {dialect().fence}
        """  # noqa: S608 (no data)

    def _happened(self, exposures: str) -> str:
        exposed = ", ".join(f"exposed.{name}" for name in _EXPOSURE.split(", "))
        return f"""
            SELECT {exposed}, id, name, timestamp, received_at, properties, {dialect().effective_day} AS day
            FROM {exposures} AS exposed JOIN {Event._meta.db_table} AS happened
                ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())}
        """  # noqa: S608 (no data)

    def _matters(self) -> Iterator[str]:
        yield from super()._matters()
        yield f"{dialect().effective_day} < {self._put(self._until_day.isoformat())}"


class NegativeAmountsQuery(TotalsQuery):
    """The SQL that looks for a negative amount of a metric."""

    def __init__(self, experiment: Experiment, definition: Definition) -> None:
        super().__init__(experiment)
        self.definitions = [definition]

    def exists_since(self, mark: str | None) -> bool:
        """Return whether an event that arrived since a mark, or any event, has a negative amount."""
        [definition] = self.definitions
        # Only the index on `arrival` finds new events quickly.
        arrived = "TRUE" if mark is None else self._fill_in(*arrived_since(mark, "arrival"))
        amount = amount_of(definition.quantity, self._put)
        statement = f"""
            SELECT 1 FROM (SELECT * FROM {Event._meta.db_table} WHERE {arrived} {dialect().fence}) AS happened
            WHERE {" AND ".join(self._is_relevant())} AND {is_of(definition.quantity, self._put)} AND {amount} < 0
            LIMIT 1
        """  # noqa: S608 (no data)
        return bool(fetch(statement, self.parameters))
