"""The sums of a metric over a sample of users, from events, as if an experiment had begun weeks ago.

This is for plans only, where no experiment has measured the metric yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import CharField, F, IntegerField, Min, UUIDField, Value
from django.db.models.functions import MD5

from config.database.planning import BY_INDEX, planned
from config.database.selects import rows_of, select_of
from config.models import Environment
from events.models import Event
from experiments.metrics.definition import Definition
from experiments.models import Exposure
from experiments.results.caps import find_cap
from experiments.results.expressions import IsOneOf
from experiments.results.metrics import ZERO
from experiments.results.sums import ExactSums, Summing, sum_values
from experiments.results.user_groups import sums_of
from experiments.results.values import Source, computed_values
from experiments.stats.types import Sums

PERIOD = timedelta(days=28)
MAX_USERS = 10_000
_VARIANT = "sample"


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: `users` is the number of all users between `start` and `end`, and `sums` are of the sample."""

    start: datetime
    end: datetime
    users: int
    sums: Sums


def sample_events(definition: Definition, environment: Environment, now: datetime) -> Sample | None:
    """Measure up to 10,000 users, drawn by a hash of their ids, whose first event counts as exposure.

    The period has 28 days, or fewer if the events are younger. It ends early enough that the
    windows of all users have passed. The answer is None where there are no users.
    """
    span = definition.delay + (definition.window or ZERO)
    end = now - span
    since = Event.objects.filter(environment=environment, timestamp__gte=end - PERIOD, timestamp__lte=now).order_by()
    # Only columns of an index are used, so that the database reads the index alone.
    users = since.values("user_id").annotate(first=Min("timestamp")).filter(first__lte=end)
    drawn = dict(users.order_by(MD5("user_id"), "user_id").values_list("user_id", "first")[:MAX_USERS])
    if not drawn:
        return None
    # Counted in the same statement, all users would go through the coordinator of Citus.
    number = len(drawn) if len(drawn) < MAX_USERS else users.count()
    exposures = (
        since.filter(IsOneOf(F("user_id"), [*drawn]))
        .values("user_id")
        .annotate(
            exposed_at=Min("timestamp"),
            experiment_id=Value(UUID(int=0), UUIDField()),
            variant=Value(_VARIANT, CharField()),
            phase=Value(1, IntegerField()),
        )
    )
    source = Source(
        exposures=rows_of(Exposure, select_of(exposures)),
        definitions={0: definition},
        environment=environment.pk,
        earliest=end - PERIOD,
        variants=[_VARIANT],
        until=now,
    )
    with transaction.atomic(), planned(**BY_INDEX):
        values = computed_values(source)
        cap = find_cap(definition, values)
        summing = Summing(source.definitions, {} if cap is None else {0: cap}, source.variants, has_history=False)
        sums = sum_values(values, summing, ()).get((0, _VARIANT), ExactSums())
    return Sample(max(end - PERIOD, min(drawn.values())), end, number, sums_of(len(drawn), sums))
