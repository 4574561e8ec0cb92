"""Reading what the totals of users come to: call `totals.folding.fold` first. Each function makes one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum

from experiments.exposures import floor_to_second
from experiments.fields import ExactField, ExactSum
from experiments.models import Experiment, Fold, UserTotal, VariantSums
from experiments.totals.dialects import Parameters
from experiments.totals.queries import exposed_users
from experiments.totals.summing import NAMES, VariantTotals, as_totals, figure

_USERS_AT_ONCE = 2000

Totals = Mapping[int, Mapping[str, VariantTotals]]
"""By the place of the metric (EXPOSURES: of the exposures), then by variant. What has no users is not in it."""


def read_sums(experiment: Experiment) -> Totals:
    """The sums of all users."""
    summed = {f"sum_{name}": _sum(VariantSums._meta.get_field(name)) for name in NAMES}
    found: dict[int, dict[str, VariantTotals]] = {}
    for place, variant, *values in _sums(experiment).values_list("metric", "variant").annotate(**summed):
        found.setdefault(place, {})[variant] = as_totals(**dict(zip(NAMES, values, strict=True)))
    return found


def _sum(field: Any) -> Any:
    return ExactSum(field.name) if isinstance(field, ExactField) else Sum(field.name)


def read_daily(experiment: Experiment) -> Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]:
    """The sums of the users who were exposed on a day, in UTC, in the order of the days."""
    found: dict[int, dict[str, dict[date, VariantTotals]]] = {}
    rows = _sums(experiment).order_by("day").values_list("metric", "variant", "day", *NAMES)
    for place, variant, day, *values in rows:
        found.setdefault(place, {}).setdefault(variant, {})[day] = VariantTotals(*values)
    return found


def count_mature(
    experiment: Experiment, spans: Collection[timedelta], at: datetime
) -> Mapping[timedelta, Mapping[str, int]]:
    """For each span, the users by variant whose exposure is that long ago: whose window has passed, if that is it."""
    begun = {span: floor_to_second(at - span) for span in spans}
    counts = {
        f"span_{place}": Count("user_id", filter=Q(exposed_at__lt=moment + timedelta(seconds=1)))
        for place, moment in enumerate(begun.values())
    }
    rows: Iterable[tuple[Any, ...]] = exposed_users(experiment).values_list("variant").annotate(**counts)
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
    cap = read_caps(experiment).get(place, float("inf"))
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
