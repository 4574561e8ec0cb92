"""What others ask of exposures: the variants and attributes of users, and whether anything has arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Model, Q, Value

from config.database.commit_order import is_live_watermark, live_watermark, newest_arrivals
from config.models import Environment
from events.models import Event
from experiments.exposures.assignment import assigners
from experiments.models import Experiment, Exposure, Status
from flags.models import RecentUser
from flags.usage.attributes import attributes_in


@dataclass(frozen=True, slots=True)
class SeenAttributes:
    """The attributes that a user last had. `seen_at` is None if nothing is known.

    `is_recent` says that the user is in the sample of recent users.
    """

    attributes: Mapping[str, Any]
    seen_at: datetime | None
    is_recent: bool


def exposures_of(environment: Environment, user_id: str) -> list[Exposure]:
    """Return a user's exposures in all experiments of an environment, the newest first, with one query."""
    experiments = Experiment.objects.in_environment(environment).order_by().values("pk")
    return list(Exposure.objects.filter(experiment__in=experiments, user_id=user_id).order_by("-exposed_at"))


def attributes_seen(environment: Environment, user_id: str, exposures: Sequence[Exposure]) -> SeenAttributes:
    """Return the attributes from the sample of recent users and from the exposures. Later values win.

    The sample has the attributes that conditions read, and exposures those that were sent with them.
    """
    recent = RecentUser.objects.filter(environment=environment, user_id=user_id).first()
    seen: list[tuple[datetime, Mapping[str, Any]]] = [(row.exposed_at, row.attributes or {}) for row in exposures]
    if recent is not None:
        seen.append((recent.seen_at, recent.attributes))
    return SeenAttributes(_merge(seen), max((seen_at for seen_at, _ in seen), default=None), recent is not None)


def _merge(seen: Iterable[tuple[datetime, Mapping[str, Any]]]) -> dict[str, Any]:
    newest: dict[str, Any] = {}
    for _, attributes in sorted(seen, key=lambda entry: entry[0]):
        newest.update(attributes)
    return newest


def attributes_read(environment_key: str) -> Iterator[str]:
    """Yield the attributes that drafts and running experiments read."""
    for (key, _), experiment in assigners.state.items():
        if key == environment_key and experiment.status != Status.STOPPED:
            yield from attributes_in(experiment.as_json)


def variants_of_recent_users(environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the variants of recent users, by user id and experiment key, with one query."""
    keys = {
        assigner.id: key for key in experiments if (assigner := assigners.state.get((environment.key, key))) is not None
    }
    recent = RecentUser.objects.filter(environment=environment).values("user_id")
    exposures = Exposure.objects.filter(experiment__in=keys, user_id__in=recent) if keys else Exposure.objects.none()
    variants: dict[str, dict[str, str]] = defaultdict(dict)
    for experiment_id, user_id, variant in exposures.values_list("experiment", "user_id", "variant"):
        variants[user_id][keys[experiment_id]] = variant
    return variants


_MAX_SEARCHED = 5_000
"""At most this many of the newest arrivals are searched. If there are more, something is taken to have changed."""
_SEPARATOR = "|"
_EVENTS, _EXPOSURES = Event._meta.db_table, Exposure._meta.db_table


def current_arrivals() -> str:
    """Return the position of events and exposures in the order of commits, for `has_arrivals`."""
    return _SEPARATOR.join((live_watermark(_EVENTS), live_watermark(_EXPOSURES)))


def can_be_arrivals(position: str) -> bool:
    """Return whether a client may have got this text from `current_arrivals`."""
    positions = position.split(_SEPARATOR)
    return len(positions) == 2 and all(map(is_live_watermark, positions))


def has_arrivals(experiment: Experiment, names: Collection[str], since: str) -> bool:
    """Return whether an exposure of the experiment, or an event with one of these names, has arrived since."""
    events, exposures = since.split(_SEPARATOR)
    is_of_metrics = Q(environment=experiment.environment_id, name__in=names)
    return _has(Exposure, exposures, Q(experiment=experiment)) or _has(Event, events, is_of_metrics)


def _has(model: type[Model], since: str, is_wanted: Q) -> bool:
    arrived = newest_arrivals(model, since, limit=_MAX_SEARCHED)
    counts = arrived.aggregate(read=Count("*"), wanted=Count(Value(1), filter=is_wanted))
    return bool(counts["wanted"]) or bool(counts["read"] == _MAX_SEARCHED)
