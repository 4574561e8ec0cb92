"""What is stored about one user of an environment: the exposures, and the attributes that were last seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from config.models import Environment
from experiments.models import Experiment, Exposure
from flags.models import RecentUser


@dataclass(frozen=True, slots=True)
class SeenAttributes:
    """The attributes that a user last had, and when any were last seen: None if nothing is known.

    `is_recent` says that the user is in the sample of recent users.
    """

    attributes: Mapping[str, Any]
    seen_at: datetime | None
    is_recent: bool


def exposures_of(environment: Environment, user_id: str) -> list[Exposure]:
    """Return the exposures of a user in all experiments of an environment, the newest first, with one query."""
    experiments = Experiment.objects.in_environment(environment).order_by().values("pk")
    return list(Exposure.objects.filter(experiment__in=experiments, user_id=user_id).order_by("-exposed_at"))


def attributes_seen(environment: Environment, user_id: str, exposures: Sequence[Exposure]) -> SeenAttributes:
    """Return the attributes from the sample of recent users and from the user's exposures. Later values count.

    The sample has what conditions read, and exposures have what was sent with them.
    """
    recent = RecentUser.objects.filter(environment=environment, user_id=user_id).first()
    seen: list[tuple[datetime, Mapping[str, Any]]] = [(row.exposed_at, row.attributes or {}) for row in exposures]
    if recent is not None:
        seen.append((recent.seen_at, recent.attributes))
    return SeenAttributes(_newest(seen), max((at for at, _ in seen), default=None), recent is not None)


def _newest(seen: Iterable[tuple[datetime, Mapping[str, Any]]]) -> dict[str, Any]:
    newest: dict[str, Any] = {}
    for _, attributes in sorted(seen, key=lambda entry: entry[0]):
        newest.update(attributes)
    return newest
