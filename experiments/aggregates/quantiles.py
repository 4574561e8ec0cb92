"""Quantiles of the values of events, by variant, with standard errors that count users as clusters of events.

A quantile does not add up over users or phases, so it is computed from the values of all events of all users who count
at once: see `experiments.stats.quantiles`. The service reads these values. Where they are too many for its memory, and
where a coordinator would have to pass them on, the database counts them instead, which takes several passes.

`QuantileReader` returns those that are stored for a set of phases, and computes the others. It takes no lock for that:
what it computed is stored afterwards, unless the totals have changed meanwhile. Nothing is computed twice while totals
and mature users stay the same. Quantiles of frozen results are those that were stored when they froze, because their
events may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction

from config.database.consistent_reads import read_consistently
from config.database.engines import is_distributed
from config.documents import Document
from experiments.aggregates.dialects import planned
from experiments.aggregates.event_values import EventValuesQuery
from experiments.aggregates.mature_sums import Maturity, boundaries_of
from experiments.aggregates.metric_columns import Put
from experiments.aggregates.statements import IN_ONE_PASS
from experiments.aggregates.value_counts import Key
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal
from experiments.models.locks import lock_aggregates
from experiments.stats.types import Quantile

MOST_IN_MEMORY = 5_000_000
"""The most values that the service reads at once. Each takes about 70 bytes while they are sorted."""

Quantiles = Mapping[int, Mapping[str, Quantile]]
"""The quantiles by metric index and variant, of the metrics of type quantile alone."""


def has_quantiles(experiment: Experiment) -> bool:
    """Return whether the experiment has a metric that is a quantile."""
    return any(definition.quantile is not None for definition in definitions_of(experiment))


# computing


def compute_quantiles(
    experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases from all events, until the stop if there was one."""

    def rows(put: Put) -> str:
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
        quantiles.setdefault(group.metric_index, {})[group.key[-1]] = group.quantile
    return quantiles


@dataclass(frozen=True, slots=True)
class Group:
    """The quantile of one metric over a group of users, with the values that the users are grouped by."""

    metric_index: int
    key: Key
    quantile: Quantile


def compute_groups(
    experiment: Experiment, at: datetime | None, rows: Callable[[Put], str], keys: Sequence[str]
) -> list[Group]:
    """Return the quantiles over users grouped by the SQL expressions `keys`, of which the last is the variant.

    `rows` returns SQL that follows FROM and has the columns of totals. Users count who are mature at the moment `at`,
    or everybody if it is None. For each metric, one statement counts the users, and one or more read or count the
    values of their events. In a transaction of the caller that sees rows of others, an event that comes meanwhile may
    be counted in some of them only.
    """
    definitions = definitions_of(experiment)
    boundaries = {} if at is None else boundaries_of(experiment, at, definitions)
    groups: list[Group] = []
    # With nested loops, PostgreSQL without statistics compares every user with every event, which takes minutes.
    with read_consistently(), planned(**IN_ONE_PASS):
        for metric_index, definition in enumerate(definitions):
            if definition.quantile is not None:
                before = None if definition.span is None else boundaries.get(definition.span)
                quantiles = _quantiles(
                    definition.quantile, EventValuesQuery(experiment, definition, rows, keys, before)
                )
                groups += [Group(metric_index, key, quantile) for key, quantile in quantiles.items()]
    return groups


def _quantiles(share: float, query: EventValuesQuery) -> Mapping[Key, Quantile]:
    """Return the quantile of each group. Values are spread alike in groups that differ in the variant alone."""
    from experiments.stats.quantiles import NO_EVENTS, find_quantiles, quantiles_of  # noqa: PLC0415 (see `results.to_stats`)

    users = query.count_users()
    events = None if is_distributed() else query.read(MOST_IN_MEMORY)
    if events is None:
        return dict(zip(users, find_quantiles(share, query.count_values(users)), strict=True))
    compared: dict[Key, list[Key]] = {}
    for key in users:
        compared.setdefault(key[:-1], []).append(key)
    return {
        key: quantile
        for keys in compared.values()
        for key, quantile in zip(
            keys, quantiles_of(share, [(users[key], events.get(key, NO_EVENTS)) for key in keys]), strict=True
        )
    }


# storing


_STAMP, _SETS = "stamp", "sets"


def forgotten() -> Document:
    """Return what is stored when totals change: no quantiles, with a stamp by which later readers notice the change."""
    return {_STAMP: uuid4().hex}


def read_quantiles(
    experiment: Experiment, at: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases, stored or computed; see `QuantileReader`."""
    return QuantileReader(experiment, at).over(phases, maturity)


class QuantileReader:
    """Reads the quantiles of an experiment that is up to date; `at` is the present moment.

    Create and use it within `read_consistently`, and call `store` afterwards.
    """

    def __init__(self, experiment: Experiment, at: datetime) -> None:
        self._experiment, self._at = experiment, at
        self._has_quantiles = has_quantiles(experiment)
        self._stored = _read(experiment) if self._has_quantiles else {}
        self._computed: dict[str, Document] = {}

    def over(self, phases: Collection[int], maturity: Maturity = "mature") -> Quantiles:
        """Return the quantiles over the users of these phases.

        They are empty where frozen results have none stored and their events may be gone.
        """
        if not self._has_quantiles:
            return {}
        key, users = _key(phases, maturity), self._count_users(phases, maturity)
        entry = self._stored.get(_SETS, {}).get(key)
        if self._experiment.frozen_at is not None:
            # Results that froze in an older version have quantiles whose ties were not spread.
            entry = entry or self._stored.get(key)
            if entry is None and not _has_events(self._experiment):
                return {}
        elif entry is not None and entry["users"] != users:
            entry = None
        if entry is None:
            computed = compute_quantiles(self._experiment, self._at, phases, maturity)
            entry = self._computed[key] = {"users": users, "metrics": quantiles_document(computed)}
        return parse_quantiles(entry["metrics"])

    def store(self) -> None:
        """Store what was computed, unless the totals have changed or the results have frozen since."""
        if not self._computed:
            return
        with transaction.atomic():
            [state] = lock_aggregates([self._experiment.pk])
            stored, frozen_at = state.quantiles or {}, self._experiment.frozen_at
            is_same = Experiment.objects.filter(pk=self._experiment.pk, frozen_at=frozen_at).exists()
            if is_same and stored.get(_STAMP) == self._stored.get(_STAMP):
                state.quantiles = {**stored, _SETS: {**stored.get(_SETS, {}), **self._computed}}
                state.save(update_fields=["quantiles"])

    def _count_users(self, phases: Collection[int], maturity: Maturity) -> list[int]:
        """Return the number of users who count for each span of a quantile. Users who count once go on counting."""
        definitions = [definition for definition in definitions_of(self._experiment) if definition.quantile is not None]
        boundaries = boundaries_of(self._experiment, self._at, definitions) if maturity == "mature" else {}
        totals = UserTotal.objects.filter(experiment=self._experiment, phase__in=phases)
        return [totals.filter(exposed_at__lt=before).count() for _, before in sorted(boundaries.items())]


def _read(experiment: Experiment) -> Document:
    states = AggregateState.objects.filter(experiment=experiment)
    return states.values_list("quantiles", flat=True).first() or {}


def _has_events(experiment: Experiment) -> bool:
    return Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists()


def _key(phases: Collection[int], maturity: Maturity) -> str:
    return f"{maturity} {','.join(map(str, sorted(phases)))}"


def stored_sets(stored: Mapping[str, Any]) -> Iterator[tuple[list[int], Maturity]]:
    """Yield the phases and the maturity of each stored entry."""
    for key in stored.get(_SETS, {}):
        maturity, phases = key.split(" ")
        yield [int(phase) for phase in phases.split(",")], "mature" if maturity == "mature" else "all"


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
