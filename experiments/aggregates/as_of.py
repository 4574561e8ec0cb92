"""The sums as of a moment, computed from events and exposures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Count

from config.timestamps import floor_to_second
from experiments.aggregates.caps import percentile_cap
from experiments.aggregates.dialects import fetch, planned
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.ranks import find_by_rank
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery, exposed_users
from experiments.aggregates.sum_statements import Counted, counted, sum_up
from experiments.aggregates.variant_sums import Caps, Mature, SumsAsOf, VariantTotals
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment

_SECOND = timedelta(seconds=1)


def sums_as_of(experiment: Experiment, moment: datetime) -> SumsAsOf:
    """Return the sums as if the experiment had been stopped and read at a moment, caps included.

    This takes one pass over the events until then, and two more for each cap at a percentile, or some more on Citus.
    It writes nothing.
    """
    stopped = as_if_stopped(experiment, moment)
    return sums_until_stop(stopped, find_caps(stopped))


def as_if_stopped(experiment: Experiment, moment: datetime) -> Experiment:
    """Return a copy of the experiment that was stopped at a moment, unless the experiment stopped before.

    What is computed from events is then as of that moment.
    """
    stopped = copy(experiment)
    stopped.stopped_at = moment if experiment.stopped_at is None else min(moment, experiment.stopped_at)
    return stopped


def sums_until_stop(stopped: Experiment, caps: Caps) -> SumsAsOf:
    assert stopped.stopped_at is not None  # noqa: S101 (see `as_if_stopped`)
    moment, query = stopped.stopped_at, TotalsQuery(stopped)
    metrics = [_of_mature(metric, moment, query) for metric in counted(stopped, caps)]
    rows = f"({query.totals(None)}) AS computed"
    by_phase: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    with planned(**IN_ONE_PASS):
        summed = sum_up(rows, ["variant", "phase"], metrics, query.parameters)
    for (index, variant, phase), totals in summed.items():
        by_phase.setdefault(phase, {}).setdefault(index, {})[variant] = totals
    return SumsAsOf(by_phase, _count_mature(stopped, definitions_of(stopped), moment))


def _of_mature(metric: Counted, moment: datetime, query: TotalsQuery) -> Counted:
    """Return the metric such that the values of users count as 0 whose window is not over at the moment."""
    if metric.definition.span is None:
        return metric
    before = query.parameters.put(_end_of_mature(moment, metric.definition.span))

    def figure(name: str) -> str:
        return f"CASE WHEN exposed_at < {before} THEN {metric.figure(name)} ELSE 0 END"

    return replace(metric, figure=figure)


def _end_of_mature(moment: datetime, span: timedelta) -> datetime:
    """Return the first time of an exposure, in whole seconds, that is too late to be mature at the moment."""
    return floor_to_second(moment - span) + _SECOND


def find_caps(stopped: Experiment) -> Caps:
    with planned(**IN_ONE_PASS):
        caps = {index: _find_cap(stopped, definition) for index, definition in enumerate(definitions_of(stopped))}
    return {index: cap for index, cap in caps.items() if cap is not None}


def _find_cap(stopped: Experiment, definition: Definition) -> float | None:
    if definition.cap_percentile is None:
        return definition.cap_value

    query = TotalsQuery(stopped)
    query.definitions = [definition]
    value = Layout([definition]).figure(0, "y")
    rows = f"(SELECT {value} AS value FROM ({query.totals(None)}) AS computed) AS valued WHERE value <> 0"  # noqa: S608
    [[number]] = fetch(f"SELECT COUNT(*) FROM {rows}", query.parameters)  # noqa: S608 (no data)
    return percentile_cap(
        definition.cap_percentile, int(number), lambda rank: find_by_rank("value", rows, query.parameters, rank)
    )


def _count_mature(stopped: Experiment, definitions: Sequence[Definition], moment: datetime) -> Mature:
    spans = {definition.span for definition in definitions if definition.span is not None}
    counts = {span: _count_exposed_before(stopped, _end_of_mature(moment, span)) for span in spans}
    return {span: by_phase for span, by_phase in counts.items() if by_phase}


def _count_exposed_before(stopped: Experiment, before: datetime) -> Mapping[int, Mapping[str, int]]:
    exposed = exposed_users(stopped).filter(exposed_at__lt=before).order_by()
    counts: dict[int, dict[str, int]] = {}
    for phase, variant, users in exposed.values_list("phase", "variant").annotate(users=Count("user_id")):
        counts.setdefault(phase, {})[variant] = users
    return counts
