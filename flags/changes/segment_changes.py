"""Write a single segment, for the API, the admin and commands. `bulk` writes many segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Max

from config.change_log.writing import Actor, Writing, changing, writing
from config.database import insertion
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import SEGMENT, SEGMENT_MEMBERS, Change, ChangeQuerySet, kinds_of
from config.slugs import check_description, check_key, is_key
from flags.changes import references
from flags.changes.flag_rows import Stamp
from flags.models import Segment
from flags.validation.parsing import MAX_USER_IDS, parse_segment
from flags.validation.rules import check_user_ids

KIND, MEMBERS_KIND = SEGMENT, SEGMENT_MEMBERS
_NEW: Mapping[str, Any] = {"description": "", "conditions": [], "user_ids": []}
_NAMES = {"user_ids": "userIds"}
_MEMBERSHIP = frozenset({"conditions", "user_ids"})
_COLUMNS = tuple(field.attname for field in Segment._meta.concrete_fields)


def get_segment(key: str) -> Segment:
    segment = Segment.objects.filter(key=key).first() if is_key(key) else None
    if segment is None:
        message = f"No segment has the key {key[:100]!r}; list them with GET /v1/segments."
        raise DomainError(ErrorCode.NOT_FOUND, message)
    return segment


def create_segment(*, key: str, actor: Actor, now: datetime, reason: str = "", **values: Any) -> Segment:
    """Create a segment. `values` are any of description, conditions and user_ids.

    Raises ValidationFailed, or DomainError `already_exists`.
    """
    accepted = validate(key, values, details_of_key=check_key(key))
    with writing(actor=actor, now=now, reason=reason) as log:
        if Segment.objects.filter(key=key).exists():
            message = f"A segment with the key {key} exists already; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        segment = new_segment(key, accepted, Stamp(log.at, log.next_revision()))
        segment.save(force_insert=True)
        references.check_segment(segment_as_json(segment))
        log.append(KIND, object_id=segment.pk, key=key, before=None, after=segment_as_json(segment))
        return segment


def update_segment(
    *,
    key: str,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Segment:
    """Merge `changes` (description, conditions, user_ids) into a segment. Nothing is written if nothing differs."""
    with changing(partial(get_segment, key), if_match, actor=actor, now=now, reason=reason) as (log, segment):
        return change(log, segment, changes)


def change(log: Writing, segment: Segment, changes: Mapping[str, Any]) -> Segment:
    """Merge `changes` into a segment and log the change, as `update_segment` does."""
    before = segment_as_json(segment)
    values = validate(segment.key, changes, to={name: getattr(segment, name) for name in _NEW})
    new = _save(segment, values, Stamp(log.at, log.next_revision()))
    if new:
        if "conditions" in new:
            references.check_segment(segment_as_json(segment))
        log.append(KIND, object_id=segment.pk, key=segment.key, before=before, after=segment_as_json(segment))
        announce(log, [segment.key] if has_other_members(new) else [])
    return segment


def delete_segment(*, key: str, actor: Actor, now: datetime, if_match: str | None = None, reason: str = "") -> None:
    """Delete a segment that nothing uses. Its history stays in the change log."""
    with changing(partial(get_segment, key), if_match, actor=actor, now=now, reason=reason) as (log, segment):
        remove(log, segment)


def remove(log: Writing, segment: Segment) -> None:
    references.require_segment_not_needed(segment)
    before, segment_id = segment_as_json(segment), segment.pk
    segment.delete()
    log.append(KIND, object_id=segment_id, key=segment.key, before=before, after=None)


def change_members(
    *,
    key: str,
    add: Any = None,
    remove: Any = None,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> tuple[Segment, Members]:
    """Add and remove listed users, and return those whose membership changed.

    The change log stores only these, because the whole lists may be megabytes.
    """
    add, remove = [] if add is None else add, [] if remove is None else remove
    _check_ids(add, remove)
    with changing(partial(get_segment, key), if_match, actor=actor, now=now, reason=reason) as (log, segment):
        listed = set(segment.user_ids)
        members = Members([user for user in add if user not in listed], [user for user in remove if user in listed])
        user_ids = members.applied_to(segment.user_ids)
        if len(user_ids) > MAX_USER_IDS:
            message = f"Would list {len(user_ids):,} users; a segment can list at most {MAX_USER_IDS:,}."
            raise ValidationFailed([Detail("add", DetailCode.OUT_OF_RANGE, message)])
        if _save(segment, {"user_ids": user_ids}, Stamp(log.at, log.next_revision())):
            before, after = {"userIds": members.removed}, {"userIds": members.added}
            log.append(MEMBERS_KIND, object_id=segment.pk, key=key, before=before, after=after)
            announce(log, [key])
        return segment, members


def _check_ids(add: Any, remove: Any) -> None:
    details = [
        *check_user_ids(add, "add", min_length=0, max_length=MAX_USER_IDS),
        *check_user_ids(remove, "remove", min_length=0, max_length=MAX_USER_IDS),
    ]
    if not details:
        added = set(add)
        details += [
            Detail(f"remove[{place}]", DetailCode.DUPLICATE, "Must not be in `add` too.")
            for place, user in enumerate(remove)
            if user in added
        ]
    if details:
        raise ValidationFailed(details)


@dataclass(frozen=True, slots=True)
class Members:
    """User ids that were added to the list of a segment, and removed from it."""

    added: Sequence[str]
    removed: Sequence[str]

    @classmethod
    def of(cls, change: Change) -> Members:
        return cls((change.after or {})["userIds"], (change.before or {})["userIds"])

    def applied_to(self, user_ids: Sequence[str]) -> list[str]:
        """Return the list with these changes. Added users come last, in the order in which they were added."""
        moved = {*self.added, *self.removed}
        return [*(user for user in user_ids if user not in moved), *self.added]


def segments_in_log(log: ChangeQuerySet, keys: Collection[str]) -> dict[str, Document]:
    """Return the segments with these keys at the end of `log`, which may be the beginning of the change log.

    Each is its newest whole entry, with the later changes of its members applied.
    """
    newest = log.filter(kind=KIND, key__in=keys).order_by().values("key").annotate(newest=Max("revision"))
    whole = {change.key: change for change in Change.objects.filter(revision__in=newest.values("newest"))}
    documents = {key: change.after for key, change in whole.items() if change.after is not None}
    if documents:
        oldest = min(whole[key].revision for key in documents)
        later = log.filter(kind=MEMBERS_KIND, key__in=documents.keys(), revision__gt=oldest).order_by("revision")
        for change in later.iterator(chunk_size=10):
            if change.revision > whole[change.key].revision:
                as_json = documents[change.key]
                user_ids = Members.of(change).applied_to(as_json["userIds"])
                documents[change.key] = {**as_json, "userIds": user_ids}
    return documents


def segment_at(key: str, revision: int) -> Document | None:
    """Return the segment after a revision of its history, or None if there was no segment or no such revision."""
    own = Change.objects.of_key(KIND, key).filter(revision__lte=revision)
    return segments_in_log(own, [key]).get(key) if own.filter(revision=revision).exists() else None


def changed_since(keys: Collection[str], revision: int) -> list[str]:
    """Return the keys of segments, sorted, whose conditions or user ids changed after a revision."""
    rows = Change.objects.since(revision).filter(kind__in=kinds_of(KIND), key__in=keys).iterator(chunk_size=10)
    return sorted({row.key for row in rows if not is_same(_membership(row.before), _membership(row.after))})


def has_other_members(new: Collection[str]) -> bool:
    return not _MEMBERSHIP.isdisjoint(new)


def announce(log: Writing, keys: Sequence[str]) -> None:
    """Send `segments_changed` for segments whose members may have changed. The changes must be logged before."""
    if keys:
        references.segments_changed.send(sender=Segment, log=log, segments=keys)


def segment_as_json(segment: Segment) -> Document:
    """Return the segment as the change log stores it."""
    return {
        "id": str(segment.pk),
        "key": segment.key,
        "description": segment.description,
        "conditions": segment.conditions,
        "userIds": segment.user_ids,
    }


def _membership(as_json: Document | None) -> Document:
    return {name: (as_json or {}).get(name, []) for name in ("conditions", "userIds")}


def new_segment(key: str, values: Mapping[str, Any], stamp: Stamp) -> Segment:
    """Return an unsaved segment of validated values."""
    return Segment(key=key, created_at=stamp.at, updated_at=stamp.at, version=stamp.version, **values)


def set_values(segment: Segment, values: Mapping[str, Any], stamp: Stamp) -> Mapping[str, Any]:
    """Set validated values without saving, and return those that differ."""
    new = {name: value for name, value in values.items() if not is_same(value, getattr(segment, name))}
    if new:
        for name, value in {**new, "updated_at": stamp.at, "version": stamp.version}.items():
            setattr(segment, name, value)
    return new


def staged_statements(segments: Iterable[Segment]) -> Sequence[insertion.Statement]:
    rows = [[getattr(segment, name) for name in _COLUMNS] for segment in segments]
    return insertion.stage(Segment, _COLUMNS, rows, insertion.replacing(("id",), _COLUMNS))


def _save(segment: Segment, values: Mapping[str, Any], stamp: Stamp) -> Mapping[str, Any]:
    new = set_values(segment, values, stamp)
    if new:
        segment.save(update_fields=[*new, "updated_at", "version"])
    return new


def values_of(as_json: Document) -> Mapping[str, Any]:
    return {name: as_json[_NAMES.get(name, name)] for name in _NEW}


def validate(
    key: str, changes: Mapping[str, Any], *, to: Mapping[str, Any] = _NEW, details_of_key: list[Detail] | None = None
) -> Mapping[str, Any]:
    """Return the values of a segment with `changes` merged into `to`. Raises ValidationFailed with all details."""
    if unknown := changes.keys() - _NEW.keys():
        raise TypeError(f"A segment has no {', '.join(sorted(unknown))}.")
    merged = {**to, **changes}
    details = list(details_of_key or ())
    details.extend(check_description(merged["description"]))
    try:
        parse_segment({"key": key, "conditions": merged["conditions"], "userIds": merged["user_ids"]})
    except ValidationFailed as error:
        details.extend(error.details)
    if details:
        raise ValidationFailed(details)
    return merged
