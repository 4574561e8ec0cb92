"""Quantiles of the values of events, by variant, with standard errors that count users as clusters of events.

A quantile does not add up over users or phases, so it is computed from the values of all events of all users who count
at once: see `experiments.stats.quantiles`. The service reads these values. Where they are too many for its memory, and
where a coordinator would have to pass them on, the database counts them instead, which takes several passes.

`QuantileReader` returns those that are stored for a set of phases, and computes the others. It takes no lock for that:
what it computed is stored afterwards, unless the values have changed meanwhile. Nothing is computed twice while values
and mature users stay the same. Quantiles of frozen results are those that were stored when they froze, because their
events may be gone.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db import transaction
from django.db.models import Count, FloatField, QuerySet
from django.db.models.functions import Cast

from config.database.engines import is_distributed
from config.database.planning import IN_ONE_PASS, planned
from config.database.transactions import read_consistently
from config.documents import Document
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, Experiment, Exposure, ResultState
from experiments.models.locks import lock_results
from experiments.results.maturity import Maturity, boundaries_of
from experiments.results.metrics import amount, in_window
from experiments.results.value_counts import Key, ValueCounts
from experiments.results.values import Source, group_columns, source_of, stored_exposures, stored_values
from experiments.stats.types import Quantile

if TYPE_CHECKING:
    from experiments.stats.quantiles import EventValues

MAX_IN_MEMORY = 5_000_000
"""The most values that the service reads at once. Each takes about 70 bytes while they are sorted."""

_ROWS_AT_ONCE = 10_000

Quantiles = Mapping[int, Mapping[str, Quantile]]
"""The quantiles by metric index and variant, of the metrics of type quantile alone."""


def has_quantiles(experiment: Experiment) -> bool:
    """Return whether the experiment has a metric that is a quantile."""
    return any(definition.quantile is not None for definition in definitions_of(experiment))


# computing


def compute_quantiles(
    experiment: Experiment, now: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases from all events, until the stop if there was one."""
    quantiles: dict[int, dict[str, Quantile]] = {}
    if phases:
        exposures = stored_exposures(experiment).filter(phase__in=phases)
        for group in compute_groups(experiment, now if maturity == "mature" else None, exposures):
            quantiles.setdefault(group.metric, {})[group.key[-1]] = group.quantile
    return quantiles


@dataclass(frozen=True, slots=True)
class Group:
    """The quantile of one metric over a group of users, with the values that the users are grouped by."""

    metric: int
    key: Key
    quantile: Quantile


def compute_groups(
    experiment: Experiment, now: datetime | None, exposures: QuerySet[Exposure], keys: Sequence[str] = ()
) -> list[Group]:
    """Return the quantiles over the users with these exposures, grouped by the columns `keys` and by variant.

    Users count who are mature at a moment, or everybody if it is None. For each metric, one statement counts the users,
    and one or more read or count the values of their events. In a transaction of the caller that sees rows of others,
    an event that comes meanwhile may be counted in some of them only.
    """
    source = replace(source_of(experiment), exposures=exposures)
    boundaries = {} if now is None else boundaries_of(experiment, now, [*source.definitions.values()])
    groups: list[Group] = []
    # With nested loops, PostgreSQL without statistics compares every user with every event, which takes minutes.
    with read_consistently(), planned(**IN_ONE_PASS):
        for number, definition in source.definitions.items():
            if definition.quantile is not None:
                of_mature = source
                if definition.span is not None and definition.span in boundaries:
                    of_mature = replace(source, exposures=exposures.filter(exposed_at__lt=boundaries[definition.span]))
                quantiles = find_quantiles(definition, of_mature, (*keys, "variant"))
                groups += [Group(number, key, quantile) for key, quantile in quantiles.items()]
    return groups


def find_quantiles(definition: Definition, source: Source, keys: Sequence[str]) -> Mapping[Key, Quantile]:
    """Return the quantile of each group. Values are spread alike in groups that differ in the last key alone."""
    from experiments.stats import quantiles as stats  # noqa: PLC0415 (see `results.study`)

    assert definition.quantile is not None  # noqa: S101 (callers choose these metrics)
    counted = source.exposures.values_list(*keys).annotate(users=Count("user_id"))
    users: dict[Key, int] = {tuple(key): number for *key, number in counted}
    values = values_of_events(definition, source, keys)
    events = None if is_distributed() else _read_values(values, keys)
    if events is None:
        counts = ValueCounts(values, keys, users)
        return dict(zip(users, stats.find_quantiles(definition.quantile, counts), strict=True))
    compared: dict[Key, list[Key]] = {}
    for key in users:
        compared.setdefault(key[:-1], []).append(key)
    return {
        key: quantile
        for of_keys in compared.values()
        for key, quantile in zip(
            of_keys,
            stats.quantiles_of(
                definition.quantile, [(users[key], events.get(key, stats.NO_EVENTS)) for key in of_keys]
            ),
            strict=True,
        )
    }


def values_of_events(definition: Definition, source: Source, columns: Sequence[str] = ()) -> QuerySet[Exposure]:
    """Return the events that a quantile counts, each with its `amount`, its user and some columns of the exposure."""
    rows = source.of_metric(definition, *columns).filter(in_window(definition))
    return (
        rows.annotate(**group_columns(columns))
        .annotate(amount=Cast(amount(definition.quantity), FloatField()))
        .filter(amount__isnull=False)
    )


def iterate_values(values: QuerySet[Exposure], *columns: str) -> Generator[tuple[Any, ...], None, None]:
    """Yield columns of these events, some thousands at a time. Call it within a transaction."""
    # A cursor would have PostgreSQL prefer plans whose first rows come soon.
    with planned(cursor_tuple_fraction="1"):
        yield from values.values_list(*columns).iterator(chunk_size=_ROWS_AT_ONCE)


def _read_values(values: QuerySet[Exposure], keys: Sequence[str]) -> Mapping[Key, EventValues] | None:
    """Return the values of the events by the keys of their users, or None if there are too many."""
    from experiments.stats.quantiles import EventValues  # noqa: PLC0415 (see `results.study`)

    columns: dict[Key, tuple[array[float], array[int]]] = {}
    numbers: dict[str, int] = {}
    with closing(iterate_values(values, *keys, "user_id", "amount")) as rows:
        for index, (*key, user_id, value) in enumerate(rows):
            if index >= MAX_IN_MEMORY:
                return None
            of_key, owners = columns.setdefault(tuple(key), (array("d"), array("q")))
            of_key.append(value)
            owners.append(numbers.setdefault(user_id, len(numbers)))
    return {key: EventValues.of(*both) for key, both in columns.items()}


# storing


_STAMP, _SETS = "stamp", "sets"


def no_quantiles() -> Document:
    """Return what is stored when values change: no quantiles, with a stamp by which later readers notice the change."""
    return {_STAMP: uuid4().hex}


def read_quantiles(
    experiment: Experiment, now: datetime, phases: Collection[int], maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles over the users of these phases, stored or computed; see `QuantileReader`."""
    return QuantileReader(experiment, now).over(phases, maturity)


class QuantileReader:
    """Reads the quantiles of an experiment that is up to date.

    Create and use it within `read_consistently`, and call `store` afterwards.
    """

    def __init__(self, experiment: Experiment, now: datetime) -> None:
        self._experiment, self._now = experiment, now
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
            if entry is None and not _has_events(self._experiment):
                return {}
        elif entry is not None and entry["users"] != users:
            entry = None
        if entry is None:
            computed = compute_quantiles(self._experiment, self._now, phases, maturity)
            entry = self._computed[key] = {"users": users, "metrics": quantiles_as_json(computed)}
        return parse_quantiles(entry["metrics"])

    def store(self) -> None:
        """Store what was computed, unless the values have changed or the results have frozen since."""
        if not self._computed:
            return
        with transaction.atomic():
            [state] = lock_results([self._experiment.pk])
            stored, frozen_at = state.quantiles or {}, self._experiment.frozen_at
            is_same = Experiment.objects.filter(pk=self._experiment.pk, frozen_at=frozen_at).exists()
            if is_same and stored.get(_STAMP) == self._stored.get(_STAMP):
                state.quantiles = {**stored, _SETS: {**stored.get(_SETS, {}), **self._computed}}
                state.save(update_fields=["quantiles"])

    def _count_users(self, phases: Collection[int], maturity: Maturity) -> list[int]:
        """Return the number of users who count for each span of a quantile. Users who count once go on counting."""
        definitions = [definition for definition in definitions_of(self._experiment) if definition.quantile is not None]
        boundaries = boundaries_of(self._experiment, self._now, definitions) if maturity == "mature" else {}
        users = stored_values(self._experiment).filter(metric=EXPOSURE, phase__in=phases)
        return [users.filter(exposed_at__lt=before).count() for _, before in sorted(boundaries.items())]


def _read(experiment: Experiment) -> Document:
    states = ResultState.objects.filter(experiment=experiment)
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


def quantiles_as_json(quantiles: Quantiles) -> Document:
    return {
        str(metric): {
            key: [quantile.n, quantile.events, quantile.value, quantile.squared_error]
            for key, quantile in by_variant.items()
        }
        for metric, by_variant in quantiles.items()
    }


def parse_quantiles(document: Document) -> Quantiles:
    return {
        int(metric): {key: Quantile(*figures) for key, figures in by_variant.items()}
        for metric, by_variant in document.items()
    }
