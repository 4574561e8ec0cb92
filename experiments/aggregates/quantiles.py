"""Quantiles of the values of events, by variant, with standard errors that count users as clusters of events.

A quantile does not add up over users or phases, so it is computed from the events of all users who count at once: the
value at the rank ceil(p · number of events). Its error follows Liu, Sun, Varshney and Xu 2019: the share of events at
or below it has the standard error sigma by the delta method over users, and the quantiles at p - z·sigma and
p + z·sigma are 2·z standard errors apart.

`update_quantiles` stores the figures for some sets of phases, before they are read; nothing is computed twice while
totals and mature users stay the same. `read_quantiles` returns them, and computes what is not stored. Quantiles of
frozen results are those that were stored when they froze, because their events may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from django.db import connection, transaction

from config.documents import Document
from events.models import Event
from experiments.aggregates.dialects import fetch, planned
from experiments.aggregates.event_conditions import is_of
from experiments.aggregates.mature_sums import Maturity, boundaries_of
from experiments.aggregates.metric_columns import amount_of, window_of
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal
from experiments.models.locks import lock_aggregates
from experiments.stats.types import Quantile

_Z = NormalDist().inv_cdf(0.975)

Quantiles = Mapping[int, Mapping[str, Quantile]]
"""The quantiles by metric index and variant, of the metrics of type quantile alone."""


def has_quantiles(experiment: Experiment) -> bool:
    """Return whether the experiment has a metric that is a quantile."""
    return any(definition.quantile is not None for definition in definitions_of(experiment))


def update_quantiles(
    experiment: Experiment, at: datetime, sets: Iterable[Collection[int]], maturity: Maturity = "mature"
) -> None:
    """Store the quantiles of a started experiment over each of these sets of phases, in a transaction of its own.

    Bring the experiment up to date first. Frozen results are left as they are, except for sets that are missing while
    their events are still there.
    """
    missing = [
        phases for phases in sets if has_quantiles(experiment) and _stored(experiment, at, phases, maturity) is None
    ]
    if not missing or not Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists():
        return
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        current = Experiment.objects.get(pk=experiment.pk)
        for phases in missing:
            computed = compute_quantiles(current, at, phases, maturity)
            entry = {"users": _users(current, at, phases, maturity), "metrics": quantiles_document(computed)}
            state.quantiles = {**(state.quantiles or {}), _key(phases, maturity): entry}
        state.save(update_fields=["quantiles"])


def read_quantiles(
    experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases; empty where frozen results have none stored."""
    if not has_quantiles(experiment):
        return {}
    stored = _stored(experiment, at, phases, maturity)
    if stored is not None:
        return parse_quantiles(stored["metrics"])
    return {} if experiment.frozen_at else compute_quantiles(experiment, at, phases, maturity)


def compute_quantiles(
    experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases from all events, until the stop if there was one."""

    def rows(put: Callable[[Any], str]) -> str:
        of_phases = (
            f"{UserTotal._meta.db_table} WHERE experiment_id = {put(experiment.pk)} "
            f"AND phase IN ({', '.join(map(put, sorted(phases)))})"
        )
        # Where the experiment is read as if it had stopped earlier, the totals have later users, too.
        stop = experiment.stopped_at
        return of_phases if stop is None else f"{of_phases} AND exposed_at <= {put(stop)}"

    quantiles: dict[int, dict[str, Quantile]] = {}
    moment = at if maturity == "mature" else None
    for group in compute_groups(experiment, moment, rows, ["variant"]) if phases else ():
        quantiles.setdefault(group.metric_index, {})[group.key[0]] = group.quantile
    return quantiles


@dataclass(frozen=True, slots=True)
class Group:
    """The quantile of one metric over a group of users, with the values that the users are grouped by."""

    metric_index: int
    key: Sequence[Any]
    quantile: Quantile


def compute_groups(
    experiment: Experiment,
    at: datetime | None,
    rows: Callable[[Callable[[Any], str]], str],
    keys: Sequence[str],
) -> list[Group]:
    """Return the quantiles over users grouped by the SQL expressions `keys`, in one statement for each metric.

    `rows` returns SQL that follows FROM and has the columns of totals. Users count who are mature at the moment `at`,
    or everybody if it is None.
    """
    definitions = definitions_of(experiment)
    boundaries = {} if at is None else boundaries_of(experiment, at, definitions)
    groups: list[Group] = []
    for metric_index, definition in enumerate(definitions):
        if definition.quantile is not None:
            query = _Query(experiment, definition)
            before = None if definition.span is None else boundaries.get(definition.span)
            for *key, users, events, value, low, high in query.fetch(rows(query.put), keys, before):
                groups.append(Group(metric_index, key, _quantile(users, events, value, low, high)))
    return groups


def _quantile(users: int, events: int | None, value: float | None, low: float | None, high: float | None) -> Quantile:
    if not events or value is None:
        return Quantile(n=users)
    error = 0.0 if low is None or high is None else (high - low) / (2 * _Z)
    return Quantile(n=users, events=int(events), value=value, squared_error=error**2)


class _Query(TotalsQuery):
    """The SQL for the quantile of one metric."""

    def __init__(self, experiment: Experiment, definition: Definition) -> None:
        super().__init__(experiment)
        self.definitions, self._definition = [definition], definition
        self.put = self._put

    def fetch(self, rows: str, keys: Sequence[str], before: datetime | None) -> list[tuple[Any, ...]]:
        statement = self._statement(rows, keys, before)
        # With nested loops, PostgreSQL without statistics compares every user with every event, which takes minutes.
        settings = {**IN_ONE_PASS, "enable_sort": "on"}
        if connection.in_atomic_block:
            with planned(**settings):
                return fetch(statement, self.parameters)
        with transaction.atomic(), planned(**settings):
            return fetch(statement, self.parameters)

    def _statement(self, rows: str, keys: Sequence[str], before: datetime | None) -> str:
        put, definition = self._put, self._definition
        share = Fraction(str(definition.quantile))
        names = [f"key_{at}" for at in range(len(keys))]
        named = ", ".join(f"{key} AS {name}" for name, key in zip(names, keys, strict=True))
        condition = "" if before is None else f"WHERE exposed_at < {put(before)}"
        counts = f"{is_of(definition.quantity, put)} AND {window_of(definition, put)}"
        p, z = (f"CAST({put(str(number))} AS DOUBLE PRECISION)" for number in (float(share), _Z))
        # Sums of whole numbers do not depend on the order of the users.
        squares = f"ABS(below_below - 2 * {p} * below_events + {p} * {p} * events_events)"
        spread = f"{z} * SQRT({squares} * users / (users - 1.0)) / events"
        return f"""
            WITH users AS (
                SELECT user_id, exposed_at, {named}, DENSE_RANK() OVER (ORDER BY {", ".join(keys)}) AS label
                FROM (SELECT * FROM {rows}) AS chosen {condition}
            ), counted AS (
                SELECT label, {", ".join(names)}, COUNT(*) AS users FROM users GROUP BY label, {", ".join(names)}
            ), valued AS (
                SELECT label, exposed.user_id, CAST({amount_of(definition.quantity, put)} AS DOUBLE PRECISION) AS value
                FROM users AS exposed JOIN {Event._meta.db_table} AS happened
                    ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())} AND {counts}
            ), ranked AS (
                SELECT label, user_id, value, COUNT(*) OVER (PARTITION BY label) AS number,
                    ROW_NUMBER() OVER (PARTITION BY label ORDER BY value) AS place
                FROM valued WHERE value IS NOT NULL
            ), middle AS (
                SELECT label, MIN(value) AS value FROM ranked
                WHERE CAST(place AS NUMERIC) * {put(share.denominator)}
                    >= CAST(number AS NUMERIC) * {put(share.numerator)}
                GROUP BY label
            ), by_user AS (
                SELECT ranked.label, middle.value, COUNT(*) AS events,
                    COUNT(*) FILTER (WHERE ranked.value <= middle.value) AS below
                FROM ranked JOIN middle ON middle.label = ranked.label
                GROUP BY ranked.label, middle.value, user_id
            ), summed AS (
                SELECT label, value, SUM(events) AS events, SUM(below * below) AS below_below,
                    SUM(below * events) AS below_events, SUM(events * events) AS events_events
                FROM by_user GROUP BY label, value
            ), bounds AS (
                SELECT summed.label, value, events, CASE WHEN users > 1 THEN {spread} END AS spread
                FROM summed JOIN counted ON counted.label = summed.label
            ), ends AS (
                SELECT bounds.label, MIN(ranked.value) FILTER (WHERE place >= ({p} - spread) * number) AS low,
                    MIN(ranked.value) FILTER (WHERE place >= ({p} + spread) * number OR place = number) AS high
                FROM ranked JOIN bounds ON bounds.label = ranked.label GROUP BY bounds.label
            )
            SELECT {", ".join(names)}, users, events, value, low, high FROM counted
                LEFT JOIN bounds ON bounds.label = counted.label LEFT JOIN ends ON ends.label = counted.label
        """  # noqa: S608 (no data)


# storing


def _key(phases: Collection[int], maturity: Maturity) -> str:
    return f"{maturity} {','.join(map(str, sorted(phases)))}"


def stored_sets(stored: Mapping[str, Any]) -> Iterator[tuple[list[int], Maturity]]:
    """Yield the phases and the maturity of each stored entry."""
    for key in stored:
        maturity, phases = key.split(" ")
        yield [int(phase) for phase in phases.split(",")], "mature" if maturity == "mature" else "all"


def _stored(experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity) -> Document | None:
    """Return the stored entry for these phases if the same users count now, or if the results are frozen."""
    stored = AggregateState.objects.filter(experiment=experiment).values_list("quantiles", flat=True).first() or {}
    entry: Document | None = stored.get(_key(phases, maturity))
    if entry is None or experiment.frozen_at is not None:
        return entry
    return entry if entry["users"] == _users(experiment, at, phases, maturity) else None


def _users(experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity) -> list[int]:
    """Return the number of users who count for each span of a quantile. Users who count once never stop counting."""
    definitions = [definition for definition in definitions_of(experiment) if definition.quantile is not None]
    boundaries = boundaries_of(experiment, at, definitions) if maturity == "mature" else {}
    totals = UserTotal.objects.filter(experiment=experiment, phase__in=phases)
    return [totals.filter(exposed_at__lt=before).count() for _, before in sorted(boundaries.items())]


def quantiles_document(quantiles: Quantiles) -> Document:
    return {
        str(metric_index): {
            key: [quantile.n, quantile.events, quantile.value, quantile.squared_error]
            for key, quantile in by_variant.items()
        }
        for metric_index, by_variant in quantiles.items()
    }


def parse_quantiles(document: Document) -> Quantiles:
    return {
        int(metric_index): {key: Quantile(*figures) for key, figures in by_variant.items()}
        for metric_index, by_variant in document.items()
    }
