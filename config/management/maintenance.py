"""Periodic tasks. Apps register them when they start, and `manage.py maintain` runs all of them once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db import connection

from config.database.locks import advisory_lock
from config.database.outages import is_outage

logger = logging.getLogger(__name__)

Work = Callable[[datetime], str]
"""Gets the current time, does what is due, and returns a report.

A task commits short transactions, so that it only needs to run again after an interruption.
"""

Item = TypeVar("Item")

tasks: dict[str, Work] = {}


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one task, in words that contain no secret."""

    task: str
    words: str
    has_failed: bool = False


def register(name: str, work: Work) -> None:
    """Add a task. Tasks run in the order in which they were registered, each in one process at a time."""
    assert tasks.setdefault(name, work) is work, name  # noqa: S101 (two tasks must not share a name)


def maintain(now: datetime) -> Iterator[Report]:
    """Run every task once, even if others fail."""
    return (_run(name, work, now) for name, work in tasks.items())


def do_each(items: Iterable[Item], work: Callable[[Item], object]) -> None:
    """Do a part of a task for each item. If one fails, the others are done all the same.

    Raises RuntimeError with the items that failed, or at once the error of a database that is away.
    """
    failed = []
    for item in items:
        try:
            work(item)
        except Exception as error:
            if is_outage(error):
                raise
            logger.exception("A periodic task failed for %s", item)
            failed.append(str(item))
    if failed:
        raise RuntimeError(f"The task failed for {', '.join(failed)}")


def _run(name: str, work: Work, now: datetime) -> Report:
    try:
        with advisory_lock(f"maintain {name}") as is_ours:
            return Report(name, work(now) if is_ours else "skipped, because another process is running it")
    except Exception as error:
        if is_outage(error):
            return Report(name, "failed, because the database does not answer", has_failed=True)
        logger.exception("The periodic task %r failed", name)
        connection.close_if_unusable_or_obsolete()  # so that the next task gets a working connection
        return Report(name, f"failed ({type(error).__name__}); see the log", has_failed=True)
