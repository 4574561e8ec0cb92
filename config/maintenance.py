"""Periodic work: each app registers its tasks in `ready()`, and `manage.py maintain` runs all of them once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from config.database.locks import advisory_lock

logger = logging.getLogger(__name__)

Work = Callable[[datetime], str]
"""Given the moment, does what is due and says what it did. It commits its own short transactions, one after the other,
so that what is done stays done, and needs no more than being run again."""

tasks: dict[str, Work] = {}


@dataclass(frozen=True, slots=True)
class Report:
    """How one task went, in words that hold nothing secret."""

    task: str
    words: str
    has_failed: bool = False


def register(name: str, work: Work) -> None:
    """Have this done by `maintain`, by one process at a time, after what was registered before."""
    assert tasks.setdefault(name, work) is work, name  # noqa: S101 (two tasks must not share a name)


def maintain(now: datetime) -> Iterator[Report]:
    """Run every task once, whatever becomes of the others."""
    return (_run(name, work, now) for name, work in tasks.items())


def _run(name: str, work: Work, now: datetime) -> Report:
    try:
        with advisory_lock(f"maintain {name}") as is_ours:
            return Report(name, work(now) if is_ours else "skipped, running elsewhere")
    except Exception as error:
        logger.exception("The periodic task %r failed", name)
        connection.close_if_unusable_or_obsolete()  # so that the next one gets a connection that works
        return Report(name, f"failed ({type(error).__name__}); the log says why", has_failed=True)
