"""What one writes first with the ORM: for each metric a query, with a subquery over the events of each exposed user.

It tells what a test of each metric needs, without what users did before, which intervals could be narrower by.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.postgres.aggregates import CovarPop
from django.db.models import Count, Exists, FloatField, OuterRef, QuerySet, Subquery, Sum, Variance
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, TruncSecond

from events.models import Event
from experiments.models import Experiment, Exposure

_WEEK = timedelta(days=7)


def compute_naively(experiment: Experiment) -> None:
    """The metrics of `tests.benchmarks.results`, by variant: users, and the sum and variance of their values."""
    bought = _events(experiment, "purchase")
    list(_exposed(experiment).annotate(users=Count("user_id"), converted=Count("user_id", filter=Exists(bought))))

    searches = _events(experiment, "search").filter(timestamp__lt=OuterRef("base") + _WEEK)
    _add_up(experiment, y=_of_user(searches, Count("pk")))

    in_euros = bought.filter(properties__currency="EUR")
    income = Sum(Cast(KeyTextTransform("revenue", "properties"), FloatField()))
    _add_up(experiment, y=_of_user(in_euros, income))

    returned = _events(experiment, "view", _WEEK).filter(timestamp__lt=OuterRef("base") + 2 * _WEEK)
    list(_exposed(experiment).annotate(users=Count("user_id"), converted=Count("user_id", filter=Exists(returned))))

    _add_up(experiment, y=_of_user(in_euros, income), d=_of_user(_events(experiment, "basket"), Count("pk")))


def _exposed(experiment: Experiment) -> QuerySet[Exposure, Any]:
    exposed = Exposure.objects.filter(experiment=experiment).annotate(base=TruncSecond("exposed_at"))
    return exposed.values("variant")


def _events(experiment: Experiment, name: str, after: timedelta = timedelta(0)) -> QuerySet[Event]:
    since = OuterRef("base") + after
    events = Event.objects.filter(name=name, user_id=OuterRef("user_id"), timestamp__gte=since, received_at__gte=since)
    return events.filter(environment=experiment.environment_id, experiment__in=["", experiment.key]).order_by()


def _of_user(events: QuerySet[Event], counted: Any) -> Subquery:
    return Subquery(events.values("user_id").annotate(y=counted).values("y"), output_field=FloatField())


def _add_up(experiment: Experiment, **values: Subquery) -> None:
    # Each of these executes the subquery once more, since the ORM repeats it wherever it is named.
    sums = {f"{aggregate.__name__}_{name}": aggregate(name) for name in values for aggregate in (Sum, Variance)}
    if len(values) > 1:  # a ratio varies by how its two parts do together
        sums["covariance"] = CovarPop(*values)
    list(_exposed(experiment).annotate(**values).values("variant").annotate(users=Count("user_id"), **sums))
