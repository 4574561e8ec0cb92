"""Users who are seen, for tests of the sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from config import snapshot
from config.models import Environment
from flags.models import RecentUser, RecentUserSampling
from flags.usage.recent_users import Note, Notebook
from flags.usage.sample import position
from flags.usage.sample_storage import Storage, add
from tests.conftest import NOON


def prepared(at: datetime = NOON) -> Notebook:
    """Return a notebook that notes the users of all environments."""
    snapshot.refresh()
    notebook = Notebook()
    notebook.prepare(at)
    return notebook


def note(user_id: str, at: datetime = NOON, **attributes: Any) -> Note:
    return Note(position(user_id), user_id, at, attributes)


def store(environment: Environment, *notes: Note, names: Iterable[str] = (), now: datetime = NOON) -> None:
    """Store notes whose attributes are all in use, and those with further names."""
    add(environment, notes, frozenset(names).union(*(each.attributes for each in notes)), now)


def store_four_users(environment: Environment) -> None:
    """Store users who were seen a moment ago, one of four with the plan pro, in a sample that is a week old."""
    now = timezone.now()
    plans = {"ada": "pro", "bob": "free", "cy": "free", "dee": "team"}
    store(environment, *(note(key, now, plan=plan) for key, plan in plans.items()), now=now)
    RecentUserSampling.objects.update(since=now - timedelta(days=8))


def store_all(storage: Storage, notebook: Notebook) -> None:
    """Store until nobody waits."""
    while any(notes.waiting for notes in notebook._notes.values()):
        storage.store()


def waiting(notebook: Notebook) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of the users who wait, by user id."""
    return {each.user_id: each.attributes for notes in notebook._notes.values() for each in notes.waiting.values()}


def stored() -> dict[str, dict[str, Any]]:
    return {user.user_id: user.attributes for user in RecentUser.objects.order_by("position")}


def lowest(user_ids: Iterable[str], number: int) -> set[str]:
    return set(sorted(set(user_ids), key=position)[:number])
