"""The exposed users that a calibration splits: all of them, or of very many a part that a hash of their ids draws."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db import connection

from experiments.aggregates.dialects import Parameters, fetch_in_chunks, planned
from experiments.aggregates.event_values import EventValuesQuery
from experiments.aggregates.metric_columns import Layout, Put
from experiments.aggregates.statements import IN_ONE_PASS
from experiments.aggregates.variant_sums import read_caps
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, UserTotal

_DIGITS = 8
"""So many hexadecimal digits of a hash decide whether a user is drawn."""
_MD5 = {"postgresql": 'md5(user_id) COLLATE "C"', "sqlite": "md5(user_id)"}

User = tuple[str, datetime, float, float, float, float]
"""The id, the moment of the exposure, and y, d, x and e, capped as in the sums."""


class DrawnUsers:
    """About `most` of the exposed users, or all if there are no more. `exposed` is the number of all.

    Create and use it within `read_consistently`.
    """

    def __init__(self, experiment: Experiment, most: int) -> None:
        self._experiment, self._definitions = experiment, definitions_of(experiment)
        self.exposed = UserTotal.objects.filter(experiment=experiment).count()
        is_drawn = self.exposed > most
        self._below = f"{16**_DIGITS * most // self.exposed:0{_DIGITS}x}" if is_drawn else None

    def read(self, metric_index: int) -> Iterator[User]:
        """Yield the values of each user by the metric with this index, in the order of the exposures."""
        cap = read_caps(self._experiment).get(metric_index, float("inf"))
        figure, parameters = Layout(self._definitions).figure, Parameters()
        statement = f"""
            SELECT user_id, exposed_at, {", ".join(figure(metric_index, name) for name in "ydxe")}
            FROM {self._rows(parameters.put)} ORDER BY exposed_at, user_id
        """  # noqa: S608 (no data)
        for user_id, at, y, d, x, e in fetch_in_chunks(statement, parameters):
            yield user_id, at if at.tzinfo else at.replace(tzinfo=UTC), min(y, cap), d, min(x, cap), e

    def read_values(self, metric_index: int) -> Iterator[tuple[str, float]]:
        """Yield the user id and the value of each event that a quantile with this index counts."""
        query = EventValuesQuery(self._experiment, self._definitions[metric_index], self._rows, ["variant"], None)
        with planned(**IN_ONE_PASS):
            for _, user_id, value in query.rows():
                yield user_id, value

    def _rows(self, put: Put) -> str:
        """Return SQL for the totals of the users, to follow FROM."""
        every = f"{UserTotal._meta.db_table} WHERE experiment_id = {put(self._experiment.pk)}"
        return every if self._below is None else f"{every} AND {_MD5[connection.vendor]} < {put(self._below)}"
