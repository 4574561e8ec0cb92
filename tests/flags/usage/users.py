"""Recent users, for tests of the sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from config import snapshot
from config.models import Environment
from flags.models import RecentUser, RecentUserSampling
from flags.usage.recent_users import RecentUsers, SeenUser
from flags.usage.sample import position
from flags.usage.sample_storage import SampleStorage, add
from tests.conftest import NOON


def prepared(at: datetime = NOON) -> RecentUsers:
    """Return recent users that are recorded in all environments."""
    snapshot.refresh()
    collected = RecentUsers()
    collected.prepare(at)
    return collected


def seen(user_id: str, at: datetime = NOON, **attributes: Any) -> SeenUser:
    return SeenUser(position(user_id), user_id, at, attributes)


def store(environment: Environment, *users: SeenUser, names: Iterable[str] = (), now: datetime = NOON) -> None:
    """Store users. All of their attributes are in use, and those in `names`."""
    add(environment, users, frozenset(names).union(*(each.attributes for each in users)), now)


def store_four_users(environment: Environment) -> None:
    """Store users who were seen just now, one of four with the plan pro, in a sample that is a week old."""
    now = timezone.now()
    plans = {"ada": "pro", "bob": "free", "cy": "free", "dee": "team"}
    store(environment, *(seen(key, now, plan=plan) for key, plan in plans.items()), now=now)
    RecentUserSampling.objects.update(since=now - timedelta(days=8))


def store_all(storage: SampleStorage, collected: RecentUsers) -> None:
    """Store until nobody waits."""
    while any(users.waiting for users in collected._by_environment.values()):
        storage.store()


def waiting(collected: RecentUsers) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of the users who wait, by user id."""
    return {
        each.user_id: each.attributes for users in collected._by_environment.values() for each in users.waiting.values()
    }


def stored() -> dict[str, dict[str, Any]]:
    return {user.user_id: user.attributes for user in RecentUser.objects.order_by("position")}


def lowest(user_ids: Iterable[str], number: int) -> set[str]:
    return set(sorted(set(user_ids), key=position)[:number])
