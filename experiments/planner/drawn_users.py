"""The exposed users that a calibration splits: all of them, or of very many a part that a hash of their ids draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import MD5

from config.database.planning import IN_ONE_PASS, planned
from experiments.models import EXPOSURE, Experiment
from experiments.results.quantiles import iterate_values, values_of_events
from experiments.results.sums import read_caps
from experiments.results.values import source_of, stored_exposures, stored_values

_DIGITS = 8
"""So many hexadecimal digits of a hash decide whether a user is drawn."""
_ROWS_AT_ONCE = 10_000

User = tuple[str, datetime, float, float, float, float]
"""The id, the moment of the exposure, and y, d, x and e, capped as in the sums."""


class DrawnUsers:
    """About `most` of the exposed users, or all if there are no more. `exposed` is the number of all.

    Create and use it within `read_consistently`.
    """

    def __init__(self, experiment: Experiment, most: int) -> None:
        self._experiment = experiment
        self._stored = stored_values(experiment.pk)
        self.exposed = self._stored.filter(metric=EXPOSURE).count()
        is_drawn = self.exposed > most
        self._below = f"{16**_DIGITS * most // self.exposed:0{_DIGITS}x}" if is_drawn else None

    def read(self, metric: int) -> Iterator[User]:
        """Yield the values of each user by a metric, in the order of the exposures."""
        cap = read_caps(self._experiment).get(metric, float("inf"))
        columns = ("value", "denominator", "value_before", "denominator_before")
        values = {
            user_id: (min(y or 0.0, cap), d or 0.0, min(x or 0.0, cap), e or 0.0)
            for user_id, y, d, x, e in self._drawn(self._stored.filter(metric=metric)).values_list("user_id", *columns)
        }
        exposures = self._drawn(self._stored.filter(metric=EXPOSURE)).order_by("exposed_at", "user_id")
        for user_id, exposed_at in exposures.values_list("user_id", "exposed_at").iterator(chunk_size=_ROWS_AT_ONCE):
            yield user_id, exposed_at, *values.get(user_id, (0.0, 0.0, 0.0, 0.0))

    def read_values(self, metric: int) -> Iterator[tuple[str, float]]:
        """Yield the user id and the value of each event that a quantile counts."""
        source = source_of(self._experiment)
        drawn = replace(source, exposures=self._drawn(stored_exposures(self._experiment)))
        with planned(**IN_ONE_PASS):
            yield from iterate_values(values_of_events(source.definitions[metric], drawn), "user_id", "amount")

    def _drawn(self, rows: QuerySet[Any]) -> Any:
        return rows if self._below is None else rows.alias(hash=MD5("user_id")).filter(hash__lt=self._below)
