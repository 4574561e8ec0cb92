"""Adding up what the totals of users come to, by variant and day of exposure: all that statistics need of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date
from fractions import Fraction
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate

from experiments.metrics.definition import Definition
from experiments.models import Experiment, UserTotal, VariantSums
from experiments.totals.dialects import planned_without
from experiments.totals.sums import EXPOSURES, exposed_users

_KEY = ("experiment_id", "metric", "variant", "day")


def add_up_exposures(experiment: Experiment) -> None:
    """Take the sums of the exposures anew."""
    exposed = exposed_users(experiment).annotate(metric=Value(EXPOSURES), day=TruncDate("exposed_at", tzinfo=UTC))
    several = Count("user_id", filter=Q(is_in_several_variants=True))
    summed = exposed.values(*_KEY).annotate(sum_users=Count("user_id"), sum_several=several)
    _replace(_stored(experiment, EXPOSURES), summed)


def add_up(experiment: Experiment, place: int, cap: float | None, days: Collection[date] | None) -> None:
    """Take the sums by the metric at this place anew: of the users exposed on these days, or of all."""
    totals, stored = UserTotal.objects.filter(experiment=experiment, metric=place), _stored(experiment, place)
    if days is not None:
        totals, stored = totals.filter(day__in=days), stored.filter(day__in=days)
    y, d, x = _capped("y", cap), F("d"), _capped("x", cap)
    added: dict[str, Any] = {"events": F("events"), "foreign": F("foreign")}
    added |= {"y": y, "yy": y * y, "d": d, "dd": d * d, "yd": y * d, "x": x, "xx": x * x, "xy": x * y}
    sums = {f"sum_{name}": Sum(each) for name, each in added.items()}
    users, positive = (Count("user_id", filter=Q(**{f"{name}__gt": 0})) for name in ("events", "y"))
    counts = {"sum_users": users, "sum_positive": positive}
    _replace(stored, totals.values(*_KEY).annotate(**counts, **sums))


def find_cap(experiment: Experiment, place: int, definition: Definition) -> float | None:
    """The value that greater ones count as: fixed, or a percentile of those measured. None where there is no cap."""
    if definition.cap_percentile is None:
        return None if definition.cap_value is None else float(definition.cap_value)
    totals = UserTotal.objects.filter(experiment=experiment, metric=place).exclude(y=0)
    from_above = totals.order_by("-y").values_list("y", flat=True)  # so that fewer have to be sorted
    return percentile_cap(definition.cap_percentile, totals.count(), from_above.__getitem__)


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float]) -> float | None:
    """The percentile (50 to 100) of so many values that are not 0, by nearest rank.

    `from_above` tells a value by its place among them, 0 for the greatest. None where there are none, or where the cap
    would lie below 0, as which users without events count.
    """
    if not number:
        return None
    rank = math.ceil(number * Fraction(str(percentile)) / 100)
    cap = from_above(number - rank)
    return cap if cap > 0 else None


def _capped(name: str, cap: float | None) -> Any:
    return F(name) if cap is None else Case(When(**{f"{name}__gt": cap}, then=Value(cap)), default=F(name))


def _stored(experiment: Experiment, place: int) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment, metric=place)


def _replace(stored: QuerySet[VariantSums], summed: Iterable[dict[str, Any]]) -> None:
    with planned_without("sort"):  # a few groups of many rows
        rows = [VariantSums(**{name.removeprefix("sum_"): value for name, value in row.items()}) for row in summed]
    stored.delete()
    VariantSums.objects.bulk_create(rows)
