"""What one writes first with the ORM: for each metric a query, with a subquery over the events of each exposed user.

It tells what a test of each metric needs: the users who count, and sums, variances and covariances of their values and
of the same values before the exposure. Metrics with a window count mature users.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import combinations
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
