"""Results as a Django developer writes them, with nothing stored: without care for speed, and with it.

Without care, each metric is a query with a subquery over the events of each exposed user. With care, each metric and
variant is one `aggregate()` over a subquery that groups the events by user. Both tell what a test of each metric needs:
the users who count, and sums and products of their values and of the same values before the exposure. Metrics with a
window count mature users.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import reduce
from itertools import combinations, combinations_with_replacement
from operator import mul
from typing import Any

from django.contrib.postgres.aggregates import CovarPop
from django.db.models import Count, F, FloatField, OuterRef, Q, QuerySet, Subquery, Sum, Value, Variance
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Least, TruncSecond

from events.models import Event
from experiments.models import Experiment, Exposure
from experiments.results.values import lookback_of

_WEEK = timedelta(days=7)
_NO_TIME = timedelta(0)
_ANY = Q()

Sums = Mapping[str, Mapping[str, Any]]
"""What a query returns, by variant: `users`, `Sum_y` and others."""


def compute_naively(experiment: Experiment, at: datetime, *, has_history: bool = True) -> Mapping[str, Sums]:
    """Return the figures of the metrics of `tests.benchmarks.results` at a moment, by metric and variant."""
    income = Sum(Cast(KeyTextTransform("revenue", "properties"), FloatField()))
    in_euros = Q(properties__currency="EUR")

    def values(
        name: str,
        what: Any,
        where: Q = _ANY,
        begin: timedelta = _NO_TIME,
        end: timedelta | None = None,
        names: str = "yx",
    ) -> Any:
        """Return the value of a user in the window, and the one before the exposure."""
        yield names[0], _of_user(_events(experiment, name, where, begin, end), what)
        if has_history:
            yield names[1], _of_user(_events(experiment, name, where, -lookback_of(experiment), _NO_TIME), what)

    once, number = Least(Count("pk"), Value(1)), Count("pk")
    return {
        "bought": _add_up(experiment, at, None, values("purchase", once)),
        "searches": _add_up(experiment, at, _WEEK, values("search", number, end=_WEEK)),
        "income": _add_up(experiment, at, None, values("purchase", income, in_euros)),
        "returned": _add_up(experiment, at, 2 * _WEEK, values("view", once, begin=_WEEK, end=2 * _WEEK)),
        "price": _add_up(
            experiment, at, None, [*values("purchase", income, in_euros), *values("basket", number, names="de")]
        ),
    }


def _events(experiment: Experiment, name: str, where: Q, begin: timedelta, end: timedelta | None) -> QuerySet[Event]:
    since = OuterRef("base") + begin
    events = Event.objects.filter(
        where, name=name, user_id=OuterRef("user_id"), timestamp__gte=since, received_at__gte=since
    )
    if end is not None:
        events = events.filter(timestamp__lt=OuterRef("base") + end)
    return events.filter(environment=experiment.environment_id, experiment__in=["", experiment.key]).order_by()


def _of_user(events: QuerySet[Event], counted: Any) -> Any:
    of_user = events.values("user_id").annotate(y=counted).values("y")
    return Coalesce(Subquery(of_user, output_field=FloatField()), Value(0.0))


def _add_up(experiment: Experiment, at: datetime, span: timedelta | None, values: Any) -> Sums:
    exposed = Exposure.objects.filter(experiment=experiment).annotate(base=TruncSecond("exposed_at"))
    if span is not None:
        exposed = exposed.annotate(mature_at=F("base") + span).filter(mature_at__lte=at)
    named = dict(values)
    # Each of these executes the subquery once more, since the ORM repeats it wherever it is named.
    sums = {f"{aggregate.__name__}_{name}": aggregate(name) for name in named for aggregate in (Sum, Variance)}
    pairs = {f"covariance_{one}{other}": CovarPop(one, other) for one, other in combinations(named, 2)}
    rows = exposed.annotate(**named).values("variant").annotate(users=Count("user_id"), **sums, **pairs)
    return {row["variant"]: row for row in rows}


def compute_in_two_levels(experiment: Experiment, now: datetime) -> Mapping[str, Sums]:
    """Return the same figures from one `aggregate()` for each metric and variant, over a row for each user."""
    income = Cast(KeyTextTransform("revenue", "happened__properties"), FloatField())
    in_euros = Q(happened__name="purchase", happened__properties__currency="EUR")
    purchase, basket, search, view = (Q(happened__name=name) for name in ("purchase", "basket", "search", "view"))

    def count(where: Q) -> Any:
        return lambda when: Count("happened__id", filter=where & when)

    def once(where: Q) -> Any:
        return lambda when: Least(Count("happened__id", filter=where & when), Value(1))

    def add(where: Q) -> Any:
        return lambda when: Coalesce(Sum(income, filter=where & when), Value(0.0))

    return {
        "bought": _by_variant(experiment, now, {"y": once(purchase)}, ["purchase"]),
        "searches": _by_variant(experiment, now, {"y": count(search)}, ["search"], end=_WEEK),
        "income": _by_variant(experiment, now, {"y": add(in_euros)}, ["purchase"]),
        "returned": _by_variant(experiment, now, {"y": once(view)}, ["view"], begin=_WEEK, end=2 * _WEEK),
        "price": _by_variant(experiment, now, {"y": add(in_euros), "d": count(basket)}, ["purchase", "basket"]),
    }


_BEFORE = {"y": "x", "d": "e"}


def _by_variant(
    experiment: Experiment,
    now: datetime,
    values: Mapping[str, Any],
    names: list[str],
    begin: timedelta = _NO_TIME,
    end: timedelta | None = None,
) -> Sums:
    base = TruncSecond("exposed_at")
    exposed = Exposure.objects.filter(experiment=experiment).order_by()
    if end is not None:
        exposed = exposed.annotate(mature_at=base + end).filter(mature_at__lte=now)
    window = Q(happened__timestamp__gte=base + begin)
    if end is not None:
        window &= Q(happened__timestamp__lt=base + end)
    before = Q(happened__timestamp__lt=base, happened__timestamp__gte=base - lookback_of(experiment))
    of_user = {name: value(window) for name, value in values.items()}
    of_user |= {_BEFORE[name]: value(before) for name, value in values.items()}
    pairs = [*of_user, *combinations_with_replacement(of_user, 2)]
    sums = {f"Sum_{''.join(pair)}": Sum(reduce(mul, map(F, pair))) for pair in pairs}
    own = Q(happened__environment=experiment.environment_id, happened__experiment__in=["", experiment.key])
    results = {}
    for variant in experiment.variant_keys:
        of_variant = exposed.filter(variant=variant)
        events = of_variant.filter(own, happened__name__in=names)
        results[variant] = events.values("user_id").annotate(**of_user).aggregate(**sums)
        results[variant]["users"] = of_variant.count()
    return results
