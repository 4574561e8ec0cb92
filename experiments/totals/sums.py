"""Reading what the totals of users come to: call `totals.folding.fold` first. Each function makes one statement."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum

from experiments.exposures import floor_to_second
from experiments.models import Experiment, Exposure, Fold, UserTotal, VariantSums
from experiments.totals.dialects import as_stored

EXPOSURES = -1
"""The place of the exposures themselves, beside those of the metrics: `users` and `several` are all that it has."""
_USERS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class VariantTotals:
    """Sums over the users of one variant, by one metric; see `models.VariantSums`. They can be added."""

    users: int = 0
    several: int = 0
    positive: int = 0
    y: float = 0.0
    yy: float = 0.0
    d: float = 0.0
    dd: float = 0.0
    yd: float = 0.0
    x: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    events: int = 0
    foreign: int = 0

    def __add__(self, other: VariantTotals) -> VariantTotals:
        mine, others = asdict(self), asdict(other)
        return VariantTotals(**{name: mine[name] + others[name] for name in mine})


NAMES = tuple(field.name for field in fields(VariantTotals))
_KINDS: Mapping[str, type[Any]] = {field.name: type(field.default) for field in fields(VariantTotals)}


def as_totals(values: Iterable[Any]) -> VariantTotals:
    """The sums of these NAMES, which PostgreSQL hands over as decimals where they are sums of whole numbers."""
    return VariantTotals(**{name: _KINDS[name](value) for name, value in zip(NAMES, values, strict=True)})


Totals = Mapping[int, Mapping[str, VariantTotals]]
"""By the place of the metric (EXPOSURES: of the exposures), then by variant. What has no users is not in it."""


def read_sums(experiment: Experiment) -> Totals:
    """The sums of all users."""
    summed = {f"sum_{name}": Sum(name) for name in NAMES}
    return _by_place(_sums(experiment).values_list("metric", "variant").annotate(**summed))


def read_daily(experiment: Experiment) -> Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]:
    """The sums of the users who were exposed on a day, in UTC, in the order of the days."""
    found: dict[int, dict[str, dict[date, VariantTotals]]] = {}
    rows = _sums(experiment).order_by("day").values_list("metric", "variant", "day", *NAMES)
    for place, variant, day, *values in rows:
        found.setdefault(place, {}).setdefault(variant, {})[day] = as_totals(values)
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


_USERS = f"""
    SELECT exposed.user_id, exposed.exposed_at, COALESCE(total.y, 0), COALESCE(total.d, 0), COALESCE(total.x, 0)
    FROM {Exposure._meta.db_table} AS exposed LEFT JOIN {UserTotal._meta.db_table} AS total
        ON total.experiment_id = exposed.experiment_id AND total.metric = %s AND total.user_id = exposed.user_id
    WHERE exposed.experiment_id = %s{{until}} ORDER BY exposed.exposed_at, exposed.user_id
"""  # noqa: S608 (no data)


def read_users(experiment: Experiment, place: int) -> Iterator[User]:
    """What the metric at this place makes of each exposed user, in the order of the exposures."""
    cap = read_caps(experiment).get(place, math.inf)
    parameters = [place, experiment.pk, *([experiment.stopped_at] if experiment.stopped_at else [])]
    statement = _USERS.format(until=" AND exposed.exposed_at <= %s" if experiment.stopped_at else "")
    with connection.cursor() as cursor:
        cursor.execute(statement, as_stored(parameters))
        while rows := cursor.fetchmany(_USERS_AT_ONCE):
            for user_id, at, y, d, x in rows:
                yield user_id, at if at.tzinfo else at.replace(tzinfo=UTC), min(y, cap), d, min(x, cap)


def exposed_users(experiment: Experiment) -> QuerySet[Exposure]:
    """The exposures that count. An assignment that was under way during the stop may carry a later moment."""
    exposed = Exposure.objects.filter(experiment=experiment)
    return exposed if experiment.stopped_at is None else exposed.filter(exposed_at__lte=experiment.stopped_at)


def _sums(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)


def _by_place(rows: Iterable[tuple[Any, ...]]) -> Totals:
    found: dict[int, dict[str, VariantTotals]] = {}
    for place, variant, *values in rows:
        found.setdefault(place, {})[variant] = as_totals(values)
    return found
