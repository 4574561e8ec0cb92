"""The connections to the database that this process holds open."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_wrappers: WeakSet[BaseDatabaseWrapper] = WeakSet()
"""Of all threads that have opened one. A thread closes and opens connections in the same wrapper."""


def _note(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _wrappers.add(connection)


connection_created.connect(_note, dispatch_uid="config.open_connections")


def count() -> int:
    return sum(wrapper.connection is not None for wrapper in _wrappers.copy())
