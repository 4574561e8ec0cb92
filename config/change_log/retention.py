"""Deleting old changes that newer ones supersede.

A change of a flag or segment is deleted once a newer change of the same object and environment is old as well. So the
state of every object at any later time, and who made it, is still known. Changes of other kinds stay: results read
those of experiments, and those of keys and users say who could do what.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, Min, OuterRef
from django.dispatch import Signal

from config.models import SEGMENT, SEGMENT_MEMBERS, Change, ChangeQuerySet

asking_for_history = Signal()
"""Receivers return the time since which they need every change, or None."""

_NEWER = {"flag": "flag", SEGMENT: SEGMENT, SEGMENT_MEMBERS: SEGMENT}
"""The kinds of changes that are deleted, each with the kind of a newer change that supersedes it."""
_AT_ONCE = 500


def complete_since(now: datetime) -> datetime | None:
    """Return the time before which superseded changes may be missing, or None if all are kept."""
    return None if settings.CHANGE_RETENTION_DAYS is None else _until(now)


def delete_old_changes(now: datetime) -> str:
    """Delete superseded changes that are older than CHANGE_RETENTION_DAYS, and return a report."""
    until = complete_since(now)
    if until is None:
        return "all are kept"
    number = sum(_delete(kind, newer, until) for kind, newer in _NEWER.items())
    return f"deleted {number:,} superseded entries from before {until:%Y-%m-%d}"


def _until(now: datetime) -> datetime:
    answers: list[tuple[Any, Any]] = asking_for_history.send(sender=Change)
    needed: list[datetime] = [answer for _, answer in answers if answer is not None]
    return min([now - timedelta(days=settings.CHANGE_RETENTION_DAYS), *needed])


def _delete(kind: str, newer: str, until: datetime) -> int:
    number = 0
    while found := list(_superseded(kind, newer, until).values_list("revision", flat=True)[:_AT_ONCE]):
        number += Change.objects.filter(revision__in=found).delete()[0]
    return number


def _superseded(kind: str, newer: str, until: datetime) -> ChangeQuerySet:
    # Writes lock the first entry of the log, so it stays.
    first = Change.objects.aggregate(first=Min("revision"))["first"]
    same = {"object_id": OuterRef("object_id"), "environment": OuterRef("environment")}
    same_object = Change.objects.filter(kind=newer, revision__gt=OuterRef("revision"), **same)
    old: ChangeQuerySet = Change.objects.filter(kind=kind, at__lt=until).exclude(revision=first)
    return old.filter(Exists(same_object.filter(at__lte=until))).order_by("revision")
