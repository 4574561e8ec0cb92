"""Reading what the totals of users come to: call `totals.folding.fold` first. Each function makes one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum

from experiments.exposures import floor_to_second
from experiments.fields import ExactField, ExactSum
from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment, Fold, UserTotal, VariantSums
from experiments.totals.dialects import Parameters
from experiments.totals.figures import Layout
from experiments.totals.queries import exposed_users
from experiments.totals.summing import KEY, NAMES, VariantTotals, as_totals

_USERS_AT_ONCE = 2000

Totals = Mapping[int, Mapping[str, VariantTotals]]
"""By the place of the metric (EXPOSURES: of the exposures), then by variant. What has no users is not in it."""

Phases = Collection[int] | None
"""The numbers of those whose exposures count; None stands for all."""


def read_sums(experiment: Experiment) -> Totals:
    """The sums of all users."""
    return pool(read_phases(experiment))


def read_phases(experiment: Experiment) -> Mapping[int, Totals]:
    """The sums of the users who were exposed in each phase."""
    summed = {f"sum_{name}": _sum(VariantSums._meta.get_field(name)) for name in NAMES}
    found: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    rows = _sums(experiment).values_list("phase", "metric", "variant").annotate(**summed)
    for phase, place, variant, *values in rows:
        of_metric = found.setdefault(phase, {}).setdefault(place, {})
        of_metric[variant] = as_totals(**dict(zip(NAMES, values, strict=True)))
    return found


def pool(by_phase: Mapping[int, Totals], phases: Phases = None) -> Totals:
    """The sums of the users of these phases together."""
    pooled: dict[int, dict[str, VariantTotals]] = {}
    for totals in (of_phase for phase, of_phase in by_phase.items() if phases is None or phase in phases):
        for place, of_variant in totals.items():
            known = pooled.setdefault(place, {})
            for variant, sums in of_variant.items():
                known[variant] = known[variant] + sums if variant in known else sums
    return pooled


def _sum(field: Any) -> Any:
    return ExactSum(field.name) if isinstance(field, ExactField) else Sum(field.name)


def read_daily(
    experiment: Experiment, phases: Phases = None
) -> Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]:
    """The sums of the users of these phases who were exposed on a day, in UTC, in the order of the days."""
    found: dict[int, dict[str, dict[date, VariantTotals]]] = {}
    for (place, variant, _, day), sums in read_days(experiment, phases):
        of_day = found.setdefault(place, {}).setdefault(variant, {})
        of_day[day] = of_day[day] + sums if day in of_day else sums
    return found


def read_days(
    experiment: Experiment, phases: Phases = None
) -> Iterator[tuple[tuple[int, str, int, date], VariantTotals]]:
    """The sums as they are kept, with the metric's place, variant, phase and day, in the order of the days."""
    kept = _sums(experiment) if phases is None else _sums(experiment).filter(phase__in=phases)
    for place, variant, phase, day, *values in kept.order_by("day").values_list(*KEY, *NAMES):
        yield (place, variant, phase, day), VariantTotals(*values)


def count_mature(
    experiment: Experiment, spans: Collection[timedelta], at: datetime, phases: Phases = None
) -> Mapping[timedelta, Mapping[str, int]]:
    """For each span, the users by variant whose exposure is that long ago: whose window has passed, if that is it.

    Of those who were exposed in these phases.
    """
    begun = {span: floor_to_second(at - span) for span in spans}
    counts = {
        f"span_{place}": Count("user_id", filter=Q(exposed_at__lt=moment + timedelta(seconds=1)))
        for place, moment in enumerate(begun.values())
    }
    exposed = exposed_users(experiment) if phases is None else exposed_users(experiment).filter(phase__in=phases)
    rows: Iterable[tuple[Any, ...]] = exposed.values_list("variant").annotate(**counts)
    counted = {variant: dict(zip(begun, users, strict=True)) for variant, *users in rows}
    return {span: {variant: users[span] for variant, users in counted.items()} for span in begun}


def read_caps(experiment: Experiment) -> Mapping[int, float]:
    """The value of each cap in force, fixed or a percentile, by the place of the metric."""
    caps = Fold.objects.filter(experiment=experiment).values_list("caps", flat=True).first() or {}
    return {int(place): cap for place, cap in caps.items()}


User = tuple[str, datetime, float, float, float]
"""The id, the moment of the exposure, y, d and x: capped, as in the sums."""


def read_users(experiment: Experiment, place: int) -> Iterator[User]:
    """What the metric at this place makes of each exposed user, in the order of the exposures."""
    cap, figure = read_caps(experiment).get(place, float("inf")), Layout(definitions_of(experiment)).figure
    parameters = Parameters()
    statement = f"""
        SELECT user_id, exposed_at, {figure(place, "y")}, {figure(place, "d")}, {figure(place, "x")}
        FROM {UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}
        ORDER BY exposed_at, user_id
    """  # noqa: S608 (no data)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        while rows := cursor.fetchmany(_USERS_AT_ONCE):
            for user_id, at, y, d, x in rows:
                yield user_id, at if at.tzinfo else at.replace(tzinfo=UTC), min(y, cap), d, min(x, cap)


def _sums(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)
