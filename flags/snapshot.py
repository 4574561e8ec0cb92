"""The compiled flags and segments of every environment, as this process evaluates them.

A change compiles one flag or segment again, and copies the dictionaries that have it. All else
stays in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from django.db.models import Max

from config.documents import Document
from config.keys import environments
from config.models import Change, Environment, kinds_of
from config.snapshot import Table
from flags.changes import flag_changes, segment_changes
from flags.changes.properties import evaluated_document, in_environment
from flags.engine.parsing import compile_flag, compile_segment
from flags.engine.types import Configuration, Flag, Segment
from flags.models import Flag as FlagRow
from flags.models import FlagState
from flags.models import Segment as SegmentRow

Entry = TypeVar("Entry")

# Under this key are the flags as they are in an environment without states: off. No environment has
# an empty key.
_ANYWHERE = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The configurations by environment key, and the keys of archived flags, which are off everywhere."""

    configurations: Mapping[str, Configuration]
    archived: frozenset[str]


def configuration(environment_key: str) -> Configuration:
    """Return all flags of an environment, also those without a state there, and all segments."""
    configurations = compiled.state.configurations
    # This table may learn of a new environment a little later than other tables of the process.
    return configurations.get(environment_key, configurations[_ANYWHERE])


def _load() -> Compiled:
    # Revisions are read first. A change committed after that is applied once more, which brings its
    # revision.
    revisions = _revisions()
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    rows = FlagState.objects.values_list("flag_id", "environment__key", "enabled", "rules")
    for flag_id, environment_key, enabled, rules in rows.iterator():
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
    flags: dict[str, dict[str, Flag]] = {key: {} for key in Environment.objects.values_list("key", flat=True)}
    flags[_ANYWHERE] = {}
    archived = set()
    for row in FlagRow.objects.iterator():
        if row.archived_at is not None:
            archived.add(row.key)
        document = {**evaluated_document(row), "states": states[row.pk]}
        for environment_key, flag in _compile(document, flags).items():
            flags[environment_key][row.key] = flag
    documents = (segment_changes.document(row) for row in SegmentRow.objects.iterator())
    by_key = {document["key"]: compile_segment(document) for document in documents}
    configurations = {
        key: Configuration(_in_order(own), by_key, max(revisions.get(key, 0), revisions.get(_ANYWHERE, 0)))
        for key, own in flags.items()
    }
    return Compiled(configurations, frozenset(archived))


def _revisions() -> Mapping[str, int]:
    """Return the newest revision of flags and segments by environment; under `_ANYWHERE`, of what all share."""
    kinds = (flag_changes.KIND, *kinds_of(segment_changes.KIND))
    changed = Change.objects.filter(kind__in=kinds).order_by().values_list("environment")
    return dict(changed.annotate(newest=Max("revision")))


def _compile(document: Document, environment_keys: Mapping[str, object]) -> Mapping[str, Flag]:
    """Return the compiled flag for each environment."""
    anywhere = compile_flag(in_environment(document, _ANYWHERE))
    return {
        key: compile_flag(in_environment(document, key)) if key in document["states"] else anywhere
        for key in environment_keys
    }


def _apply(now: Compiled, change: Change) -> Compiled:
    return _APPLY[change.kind](now, change)


def _apply_flag(now: Compiled, change: Change) -> Compiled:
    compiled_anew = _compile(change.after, now.configurations) if change.after else {}
    configurations = {
        key: replace(
            old, flags=_with(old.flags, change.key, compiled_anew.get(key)), revision=_revision(key, old, change)
        )
        for key, old in now.configurations.items()
    }
    is_archived = change.after is not None and "archivedAt" in change.after
    return Compiled(configurations, now.archived - {change.key} | ({change.key} if is_archived else set()))


def _apply_segment(now: Compiled, change: Change) -> Compiled:
    return _with_segment(now, change, compile_segment(change.after) if change.after else None)


def _apply_members(now: Compiled, change: Change) -> Compiled:
    segment = now.configurations[_ANYWHERE].segments.get(change.key)
    if segment is None:  # it has been deleted since, as a later change will say
        return now
    user_ids = segment_changes.Members.of(change).applied_to(segment.source["userIds"])
    return _with_segment(now, change, compile_segment({**segment.source, "userIds": user_ids}))


def _with_segment(now: Compiled, change: Change, segment: Segment | None) -> Compiled:
    changed = _with(now.configurations[_ANYWHERE].segments, change.key, segment)
    configurations = {
        key: replace(configuration, segments=changed, revision=_revision(key, configuration, change))
        for key, configuration in now.configurations.items()
    }
    return replace(now, configurations=configurations)


def _revision(environment_key: str, old: Configuration, change: Change) -> int:
    """Return the revision of an environment after a change. A change of another environment leaves it."""
    is_concerned = change.environment in ("", environment_key)
    return max(old.revision, change.revision) if is_concerned else old.revision


def _apply_environment(now: Compiled, change: Change) -> Compiled:
    # A change may be applied more than once, so an environment that is present stays as it is.
    configurations = {change.key: now.configurations[_ANYWHERE], **now.configurations}
    return replace(now, configurations=configurations)


def _with(entries: Mapping[str, Entry], key: str, entry: Entry | None) -> Mapping[str, Entry]:
    """Return a copy with one entry set or, if it is None, removed."""
    changed = dict(entries)
    if entry is None:
        changed.pop(key, None)
        return changed
    is_new = key not in changed
    changed[key] = entry
    return _in_order(changed) if is_new else changed


def _in_order(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """Sort by key, so that all processes have the same order. Databases sort texts differently."""
    return dict(sorted(entries.items()))


_APPLY = {
    flag_changes.KIND: _apply_flag,
    segment_changes.KIND: _apply_segment,
    segment_changes.MEMBERS_KIND: _apply_members,
    environments.KIND: _apply_environment,
}

compiled: Table[Compiled] = Table(*_APPLY, load=_load, apply=_apply)
