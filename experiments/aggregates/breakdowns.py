"""Reading the sums of totals by the values of a user attribute: one statement finds these, and another adds up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import orjson
from django.db import connection

from experiments.aggregates.dialects import JSON_TEXT, Parameters, fetch, planned
from experiments.aggregates.mature_sums import Maturity, boundaries_of, froze_with_everybody
from experiments.aggregates.quantiles import Quantiles, compute_groups, has_quantiles
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery
from experiments.aggregates.sum_statements import Counted, counted, sum_up
from experiments.aggregates.variant_sums import EXPOSURES, Caps, Phases, SumsAsOf, Totals, VariantTotals, pool
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, UserTotal
from experiments.stats.types import Quantile

MOST_VALUES = 20
_MOST_EXACT = 2.0**53

# The value is JSON, so that `true`, 1 and "1" differ, but 1 and 1.0 do not. SQLite's JSON paths are avoided because
# their meaning differs between versions.
_JSON = {"postgresql": "{}::jsonb", "sqlite": "{}"}
_VALUE = {
    "postgresql": "attributes -> {}::text",
    "sqlite": f"(SELECT {JSON_TEXT} FROM json_each(attributes) WHERE key = {{}})",  # noqa: S608 (no data)
}


@dataclass(frozen=True, slots=True)
class Slice:
    """The users with one value of the attribute; None where no value was recorded. `is_rest` means all other values.

    `sums` has the sums over the users who count, by phase, and the numbers of those who are mature for metrics with a
    window, whether others count or not (see `mature_sums`). `quantiles` are those over the phases of each split.
    """

    value: str | bool | float | None
    is_rest: bool
    sums: SumsAsOf
    quantiles: Sequence[Quantiles] = ()

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
    maturity: Maturity = "mature",
    *,
    splits: Sequence[Collection[int]] = (),
    is_computed: bool = False,
) -> list[Slice]:
    """Return the sums of the users of these phases by attribute value, the most frequent first, and the rest last.

    `caps` are those in force (see `variant_sums.read_caps`); at most `most` values have a slice of their own. Metrics
    with a window count the users who are mature at the moment `at`, or everybody, by `maturity` or if there is no
    moment. The values and the sums take a statement each. Each metric that is a quantile takes one for each of the
    `splits` of phases, which reads events; frozen results have none. If `is_computed`, everything comes from events,
    and not from stored totals: of an experiment as if it had been stopped at the moment (see `as_of.as_if_stopped`).
    """
    query, boundaries = TotalsQuery(experiment), _boundaries(experiment, at)
    is_limited = maturity == "mature"
    source = query.totals(None) if is_computed else None
    own = _own_values(experiment, attribute, phases, most)
    rows = _with_values(experiment, attribute, phases, own, source, query.parameters.put)
    metrics = counted(experiment, caps)
    if is_limited:
        metrics = [_limited(metric, boundaries) for metric in metrics]
    with planned(**IN_ONE_PASS) if is_computed else nullcontext():
        summed = sum_up(rows, _KEYS, metrics, query.parameters, boundaries.values())
    by_phase: dict[_Key, dict[int, dict[int, dict[str, VariantTotals]]]] = {}
    mature: dict[_Key, dict[timedelta, dict[int, dict[str, int]]]] = {}
    for (label, name, is_rest, phase, variant), totals in summed.items():
        key = name, bool(is_rest)
        if isinstance(label, datetime):
            for span in (span for span, before in boundaries.items() if before == label):
                mature.setdefault(key, {}).setdefault(span, {}).setdefault(phase, {})[variant] = totals.users
        else:
            by_phase.setdefault(key, {}).setdefault(phase, {}).setdefault(label, {})[variant] = totals
    quantiles = []
    if by_phase and has_quantiles(experiment) and (is_computed or experiment.frozen_at is None):
        users = partial(_with_values, experiment, attribute, phases, own, None)
        quantiles = [_quantiles(experiment, at if is_limited else None, users, split) for split in splits]
    slices = []
    for (name, is_rest), sums in by_phase.items():
        of_slice = [of_split.get((name, is_rest), {}) for of_split in quantiles]
        slices.append(Slice(_parse(name), is_rest, SumsAsOf(sums, mature.get((name, is_rest), {})), of_slice))
    return sorted(slices, key=lambda part: (part.is_rest, -part.users, str(part.value)))


_KEYS = ("name", "is_rest", "phase", "variant")


def _limited(metric: Counted, boundaries: Mapping[timedelta, datetime]) -> Counted:
    """Return the metric such that only the users who are mature for it count."""
    span = metric.definition.span
    return metric if span is None else replace(metric, before=boundaries.get(span))


def _boundaries(experiment: Experiment, at: datetime | None) -> Mapping[timedelta, datetime]:
    if at is None or froze_with_everybody(experiment):
        return {}
    return boundaries_of(experiment, at, definitions_of(experiment))


def _quantiles(
    experiment: Experiment, at: datetime | None, users: Callable[[Callable[[Any], str]], str], split: Collection[int]
) -> Mapping[_Key, Quantiles]:
    """Return the quantiles over the users of the phases of a split, by slice. `users` returns SQL for all of them."""

    def rows(put: Callable[[Any], str]) -> str:
        phases = ", ".join(map(put, sorted(split)))
        return f"(SELECT * FROM {users(put)} WHERE phase IN ({phases})) AS split"  # noqa: S608 (no data)

    quantiles: dict[_Key, dict[int, dict[str, Quantile]]] = {}
    for group in compute_groups(experiment, at, rows, ["name", "is_rest", "variant"]):
        name, is_rest, variant = group.key
        of_slice = quantiles.setdefault((name, bool(is_rest)), {})
        of_slice.setdefault(group.metric_index, {})[variant] = group.quantile
    return quantiles


def _own_values(experiment: Experiment, attribute: str, phases: Phases, most: int) -> Sequence[str]:
    """Return the most frequent values as JSON, at most so many."""
    parameters = Parameters()
    exposed = _exposed(experiment, attribute, phases, parameters.put)
    statement = f"""
        SELECT value FROM ({exposed}) AS exposed WHERE value IS NOT NULL
        GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT {parameters.put(most)}
    """  # noqa: S608 (no data)
    return [value for (value,) in fetch(statement, parameters)]


def _with_values(
    experiment: Experiment,
    attribute: str,
    phases: Phases,
    own: Sequence[str],
    source: str | None,
    put: Callable[[Any], str],
) -> str:
    """Return SQL for the rows of totals, each with its value as `name` if it is one of `own`, or with `is_rest`.

    `source` is SQL for the totals; None stands for those that are stored.
    """
    source = source or f"SELECT * FROM {UserTotal._meta.db_table} WHERE experiment_id = {put(experiment.pk)}"  # noqa: S608
    some: Sequence[str | None] = own or [None]  # because VALUES wants at least one
    names = [f"({_JSON[connection.vendor].format(put(value))})" for value in some]
    return f"""(
        WITH exposed AS ({_exposed(experiment, attribute, phases, put)}),
            named (name) AS (VALUES {", ".join(names)})
        SELECT total.*, name, value IS NOT NULL AND name IS NULL AS is_rest
        FROM ({source}) AS total JOIN exposed ON exposed.user_id = total.user_id LEFT JOIN named ON name = value
    ) AS sliced"""  # noqa: S608 (no data)


def _exposed(experiment: Experiment, attribute: str, phases: Phases, put: Callable[[Any], str]) -> str:
    """Return SQL for the users who count, and their values as JSON."""
    until = "" if experiment.stopped_at is None else f" AND exposed_at <= {put(experiment.stopped_at)}"
    within = "" if phases is None else f" AND phase IN ({', '.join(map(put, sorted(phases)))})"
    return f"""
        SELECT user_id, {_VALUE[connection.vendor].format(put(attribute))} AS value
        FROM {Exposure._meta.db_table} WHERE experiment_id = {put(experiment.pk)}{until}{within}
    """  # noqa: S608 (no data)


def _parse(name: str | None) -> str | bool | float | None:
    """Return the value of this JSON. 1 and 1.0 are equal, and PostgreSQL returns either of them."""
    value: str | bool | float | None = None if name is None else orjson.loads(name)
    return int(value) if isinstance(value, float) and abs(value) < _MOST_EXACT and value.is_integer() else value
