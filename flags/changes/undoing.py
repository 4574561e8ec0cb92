"""Undo writes of flags and segments: what a write changed goes back, if nobody has changed it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from config.change_log.undoing import (
    changed_since,
    created_at,
    put_back,
    refusing_by_cause,
    require_as_written,
    require_unchanged,
    require_unused,
    values_put_back,
)
from config.change_log.writing import Writing
from config.documents import Document
from config.models import Change
from flags.changes import bulk, flag_changes, segment_changes
from flags.changes.bulk import FlagEntry, SegmentEntry
from flags.changes.documents import Origin, States, common_values, documents
from flags.changes.properties import OFF, Values, values_of
from flags.models import Flag, Segment

_ANYWHERE = ""
_COLUMNS = {"description": "description", "conditions": "conditions", "user_ids": "userIds"}


def undo(log: Writing, changes: Sequence[Change]) -> None:
    """Put back flags and segments. Those that were created are deleted, and those that were deleted come back."""
    _undo_flags(log, [change for change in changes if change.kind == flag_changes.KIND])
    _undo_segments(log, [change for change in changes if change.kind == segment_changes.KIND])


def _undo_flags(log: Writing, changes: Sequence[Change]) -> None:
    current = documents([change.key for change in changes])
    entries, conflicts = [], []
    for change in changes:
        flag, now = current.get(change.key, (None, None))
        if change.after is None:
            require_unused("flag", change.key, now is not None)
            entries.append(_deleted_flag(change))
        elif flag is None or now is None or change.object_id != str(flag.pk):
            conflicts.append(change.key)
        elif change.before is None:
            _remove_flag(log, change, flag, now)
        elif entry := _flag_before(change.before, change.after, now):
            entries.append(entry)
        else:
            conflicts.append(change.key)
    require_unchanged("flag", conflicts)
    if entries:
        with refusing_by_cause("flag", [entry.key for entry in entries]):
            bulk.prepare(log, flags=[bulk.validate_entry(entry) for entry in entries]).write(log)


def _deleted_flag(change: Change) -> FlagEntry:
    before = change.before or {}
    return _entry(before, common_values(values_of(before, _ANYWHERE)), before["states"], _origin(change))


def _remove_flag(log: Writing, change: Change, flag: Flag, now: Document) -> None:
    require_as_written("flag", change, now)
    flag_changes.remove(log, flag, now)


def _flag_before(before: Document, after: Document, now: Document) -> FlagEntry | None:
    """Return the flag with what was changed put back; None if this has changed since."""
    common = put_back(*(common_values(values_of(document, _ANYWHERE)) for document in (before, after, now)))
    states: dict[str, Any] = {}
    for key in {**before["states"], **after["states"]}:
        state = put_back(*(document["states"].get(key, OFF) for document in (before, after, now)))
        if state is None:
            return None
        states[key] = state
    archive = put_back(*({"archivedAt": document.get("archivedAt")} for document in (before, after, now)))
    if common is None or archive is None:
        return None
    return _entry({**now, "archivedAt": archive["archivedAt"]}, common, states)


def _entry(document: Document, common: Values, states: States, origin: Origin | None = None) -> FlagEntry:
    key = document["key"]
    return FlagEntry(key, key, common, states, is_archived=bool(document.get("archivedAt")), origin=origin)


def _origin(deletion: Change) -> Origin:
    return Origin(UUID(deletion.object_id), created_at(deletion))


def _undo_segments(log: Writing, changes: Sequence[Change]) -> None:
    current = {segment.key: segment for segment in Segment.objects.filter(key__in=[change.key for change in changes])}
    entries = []
    for change in changes:
        segment = current.get(change.key)
        if change.after is None:
            require_unused("segment", change.key, segment is not None)
            entries.append(_segment_entry(change.key, _values(change.before), _origin(change)))
            continue
        if segment is None or change.object_id != str(segment.pk):
            raise changed_since("segment", [change.key])
        now = segment_changes.document(segment)
        if change.before is None:
            require_as_written("segment", change, now)
            segment_changes.remove(log, segment)
            continue
        values = values_put_back("segment", change, now, _values)
        entries.append(_segment_entry(change.key, values))
    if entries:
        with refusing_by_cause("segment", [entry.key for entry in entries]):
            bulk.prepare(log, segments=entries).write(log)


def _segment_entry(key: str, values: dict[str, Any], origin: Origin | None = None) -> SegmentEntry:
    return SegmentEntry(key, key, segment_changes.validate(key, values), origin)


def _values(document: Document | None) -> dict[str, Any]:
    return {column: (document or {}).get(name) for column, name in _COLUMNS.items()}
