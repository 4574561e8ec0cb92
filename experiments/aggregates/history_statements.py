"""The statements behind series and behind the sums as of a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import copy
from datetime import datetime
from functools import partial

from config.database.commit_order import arrived_by
from events.models import Event
from experiments.aggregates.dialects import dialect, figures
from experiments.aggregates.metric_columns import Layout, columns_of
from experiments.aggregates.statements import TotalsQuery
from experiments.aggregates.sum_statements import Counted, as_day, sum_up
from experiments.aggregates.update import Change
from experiments.aggregates.variant_sums import Caps, DailySums
from experiments.models import Experiment, Exposure, SeriesUser, UserTotal

_EXPOSURE = "user_id, variant, phase, exposed_at, is_in_several_variants"
_BOTH_SIGNS = "(SELECT 1 AS sign UNION ALL SELECT -1) AS signs"


class ChangesQuery(TotalsQuery):
    """The SQL that computes by how much the sums of some metrics change on each day.

    It counts the events that were visible when the mark was taken, or all if it is None. A stop does not matter,
    because the days before it are the same without it.
    """

    def __init__(self, experiment: Experiment, metric_indexes: Collection[int], mark: str | None) -> None:
        running = copy(experiment)
        running.stopped_at = None
        super().__init__(running)
        self._definitions = dict(enumerate(self.definitions))
        self.metric_indexes = sorted(metric_indexes)
        self.definitions = [self._definitions[index] for index in self.metric_indexes]
        self._mark = mark

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

    def changes(self, exposures: str, caps: Caps) -> DailySums:
        """Return the changes of the sums over the users with these exposures."""
        layout, change = Layout(self.definitions), Change()
        counted = [
            Counted(index, definition, caps.get(index), partial(layout.figure, at), has_history=bool(self.lookback))
            for at, (index, definition) in enumerate(zip(self.metric_indexes, self.definitions, strict=True))
        ]
        keys = ["variant", "phase", "CASE WHEN sign = 1 THEN day ELSE next_day END", "sign"]
        rows = f"({self._ends_of_days(exposures)}) AS ended, {_BOTH_SIGNS} WHERE sign = 1 OR next_day IS NOT NULL"
        for (index, variant, phase, day, sign), sums in sum_up(rows, keys, counted, self.parameters).items():
            if index in self._definitions:  # the changes of the exposures follow from their days
                change.add(sign, {(index, variant, phase, as_day(day)): sums})
        return change.sums

    def _ends_of_days(self, exposures: str) -> str:
        """Return SQL for the figures of each user at the end of each day that changes them.

        They count until the next such day. An event before the exposure counts from the day of the exposure on.
        """
        columns = columns_of(self.definitions, self._put, has_history=bool(self.lookback))
        named = {column.aggregate: f"aggregate_{at}" for at, column in enumerate(columns) if column.aggregate}
        aggregates = "".join(f", {aggregate} OVER until_day AS {name}" for aggregate, name in named.items())
        computed = figures(column.figure.format(named.get(column.aggregate)) for column in columns)
        return f"""
            SELECT {_EXPOSURE}, day, next_day, {computed} AS figures FROM (
                SELECT {_EXPOSURE}, day, LEAD(day) OVER until_day AS next_day{aggregates}
                FROM ({self._happened(exposures)}) AS happened
                WINDOW until_day AS (PARTITION BY user_id ORDER BY day)
            ) AS by_event
            WHERE next_day IS NULL OR next_day > day {dialect().fence}
        """  # noqa: S608 (no data)

    def _happened(self, exposures: str) -> str:
        exposed = ", ".join(f"exposed.{name}" for name in _EXPOSURE.split(", "))
        return f"""
            SELECT {exposed}, id, name, timestamp, received_at, properties, {dialect().effective_day} AS day
            FROM {exposures} AS exposed LEFT JOIN {Event._meta.db_table} AS happened
                ON happened.user_id = exposed.user_id AND {" AND ".join([*self._matters(), *self._arrived()])}
        """  # noqa: S608 (no data)

    def _arrived(self) -> Iterator[str]:
        if self._mark is not None:
            condition, values = arrived_by(self._mark, "happened.arrival")
            yield condition % tuple(map(self._put, values))
