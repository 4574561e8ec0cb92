"""The marks of aggregates, with the version of the code that computed them.

While servers of the release before still run, both releases refresh the same aggregates. Each takes a mark of the
other for one of another database, and computes everything again.
"""

from __future__ import annotations

from config.database.commit_order import is_mark_of_this_database

_VERSION = "5 "
"""It changes whenever the same events give other totals, sums or notes, or the same mark means other events."""
_SAME = ("4 ", _VERSION)
"""The versions that give the same, but that the one before marks no users near caps."""
_WITH_MATURITY = ("2 ", "3 ", *_SAME)
"""The versions in which metrics with a window count mature users only."""


def with_version(mark: str) -> str:
    """Return the mark as the state of aggregates stores it."""
    return _VERSION + mark


def counted_mature_users(stored: str) -> bool:
    """Return whether the version that computed the aggregates counts mature users only, where a metric has a window."""
    return stored.startswith(_WITH_MATURITY)


def plain_mark(stored: str) -> str:
    """Return a stored mark as `config.database.commit_order` takes it."""
    return stored.partition(" ")[2] if stored.startswith(_WITH_MATURITY) else stored


def usable_mark(stored: str) -> str | None:
    """Return a stored mark in the commit order of this database, or None if everything must be computed again.

    That is so the first time, after a restore from elsewhere, and if another version computed the aggregates.
    """
    mark = plain_mark(stored)
    return mark if stored.startswith(_SAME) and mark and is_mark_of_this_database(mark) else None


def marks_near_caps(stored: str) -> bool:
    """Return whether the version that computed the aggregates marks users near caps (see `near_caps`)."""
    return stored.startswith(_VERSION)
