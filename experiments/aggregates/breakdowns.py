"""Reading the sums of totals by the values of a user attribute, in one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import orjson
from django.db import connection

from experiments.aggregates.dialects import JSON_TEXT, Parameters
from experiments.aggregates.mature_sums import boundaries_of, froze_with_everybody
from experiments.aggregates.quantiles import Quantiles, compute_groups, has_quantiles
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Caps,
    Phases,
    SumsAsOf,
    Totals,
    VariantTotals,
    counted,
    pool,
    sum_up,
)
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, UserTotal
from experiments.stats.types import Quantile

MOST_VALUES = 20
_MOST_EXACT = 2.0**53

# The value is JSON, so that `true`, 1 and "1" differ, but 1 and 1.0 do not. SQLite's JSON paths are avoided because
# their meaning differs between versions.
_VALUE = {
    "postgresql": "attributes -> {}::text",
    "sqlite": f"(SELECT {JSON_TEXT} FROM json_each(attributes) WHERE key = {{}})",  # noqa: S608 (no data)
}


@dataclass(frozen=True, slots=True)
class Slice:
    """The users with one value of the attribute; None where no value was recorded. `is_rest` means all other values.

    `sums` has the sums over the users who count, by phase, and the numbers of those who are mature for metrics with a
    window (see `mature_sums`). `quantiles` are those over all phases that were asked for.
    """

    value: str | bool | float | None
    is_rest: bool
    sums: SumsAsOf
    quantiles: Quantiles = field(default_factory=dict)

    @property
    def totals(self) -> Totals:
        """Return the sums of all phases together."""
        return pool(self.sums.by_phase)

    @property
    def users(self) -> int:
        return sum(totals.users for totals in self.totals.get(EXPOSURES, {}).values())


_Key = tuple[str | None, bool]
"""The value as JSON, and whether it stands for all other values."""


def read_breakdown(
    experiment: Experiment,
    attribute: str,
    caps: Caps,
    phases: Phases = None,
    most: int = MOST_VALUES,
    at: datetime | None = None,
) -> list[Slice]:
    """Return the sums of the users of these phases by attribute value, the most frequent first, and the rest last.

    `caps` are those in force (see `variant_sums.read_caps`); at most `most` values have a slice of their own. Metrics
    with a window count the users who are mature at the moment `at`, or everybody if it is None. The sums take one
    statement, and each metric that is a quantile takes another, which reads events; frozen results have none.
    """
    parameters, boundaries = Parameters(), _boundaries(experiment, at)
    rows = _with_values(experiment, attribute, phases, most, parameters.put)
    metrics = [
        replace(metric, before=boundaries.get(metric.definition.span) if metric.definition.span else None)
        for metric in counted(experiment, caps)
    ]
    by_phase: dict[_Key, dict[int, dict[int, dict[str, VariantTotals]]]] = {}
    mature: dict[_Key, dict[timedelta, dict[int, dict[str, int]]]] = {}
    for (label, name, is_rest, phase, variant), totals in sum_up(rows, _KEYS, metrics, parameters).items():
        key = name, bool(is_rest)
        if isinstance(label, datetime):
            for span in (span for span, before in boundaries.items() if before == label):
                mature.setdefault(key, {}).setdefault(span, {}).setdefault(phase, {})[variant] = totals.users
        else:
            by_phase.setdefault(key, {}).setdefault(phase, {}).setdefault(label, {})[variant] = totals
    quantiles = _quantiles(experiment, attribute, phases, most, at) if by_phase else {}
    slices = [
        Slice(
            _parse(name), is_rest, SumsAsOf(sums, mature.get((name, is_rest), {})), quantiles.get((name, is_rest), {})
        )
        for (name, is_rest), sums in by_phase.items()
    ]
    return sorted(slices, key=lambda part: (part.is_rest, -part.users, str(part.value)))


_KEYS = ("name", "is_rest", "phase", "variant")


def _boundaries(experiment: Experiment, at: datetime | None) -> Mapping[timedelta, datetime]:
    if at is None or froze_with_everybody(experiment):
        return {}
    return boundaries_of(experiment, at, definitions_of(experiment))


def _quantiles(
    experiment: Experiment, attribute: str, phases: Phases, most: int, at: datetime | None
) -> Mapping[_Key, Quantiles]:
    if experiment.frozen_at is not None or not has_quantiles(experiment):
        return {}
    quantiles: dict[_Key, dict[int, dict[str, Quantile]]] = {}
    rows = partial(_with_values, experiment, attribute, phases, most)
    for group in compute_groups(experiment, at, rows, ["name", "is_rest", "variant"]):
        name, is_rest, variant = group.key
        of_slice = quantiles.setdefault((name, bool(is_rest)), {})
        of_slice.setdefault(group.metric_index, {})[variant] = group.quantile
    return quantiles


def _with_values(experiment: Experiment, attribute: str, phases: Phases, most: int, put: Callable[[Any], str]) -> str:
    """Return SQL for the rows of totals, each with its value as `name`, or with `is_rest`."""
    until = "" if experiment.stopped_at is None else f" AND exposed_at <= {put(experiment.stopped_at)}"
    within = "" if phases is None else f" AND phase IN ({', '.join(map(put, sorted(phases)))})"
    return f"""(
        WITH exposed AS (
            SELECT user_id, {_VALUE[connection.vendor].format(put(attribute))} AS value
            FROM {Exposure._meta.db_table} WHERE experiment_id = {put(experiment.pk)}{until}{within}
        ), named AS (
            SELECT value AS name FROM exposed WHERE value IS NOT NULL
            GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT {put(most)}
        )
        SELECT total.*, name, value IS NOT NULL AND name IS NULL AS is_rest
        FROM {UserTotal._meta.db_table} AS total JOIN exposed ON exposed.user_id = total.user_id
            LEFT JOIN named ON name = value
        WHERE total.experiment_id = {put(experiment.pk)}
    ) AS sliced"""  # noqa: S608 (no data)


def _parse(name: str | None) -> str | bool | float | None:
    """Return the value of this JSON. 1 and 1.0 are equal, and PostgreSQL returns either of them."""
    value: str | bool | float | None = None if name is None else orjson.loads(name)
    return int(value) if isinstance(value, float) and abs(value) < _MOST_EXACT and value.is_integer() else value
