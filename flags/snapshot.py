"""The flags and segments of every environment as this process evaluates them, compiled from what the change log keeps.

Applying a change compiles one flag or segment anew and copies dictionaries of one level; nothing else is touched.
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
from config.models import Change, Environment
from config.snapshot import Table
from flags.changes import flag_changes, segment_changes
from flags.changes.properties import evaluated_document, in_environment
from flags.engine.parsing import compile_flag, compile_segment
from flags.engine.types import Configuration, Flag
from flags.models import Flag as FlagRow
from flags.models import FlagState
from flags.models import Segment as SegmentRow

Entry = TypeVar("Entry")

# Under this key stands every flag as it is where it has no state: off. A key of an environment is never empty.
_ANYWHERE = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything that evaluation reads, by environment key; and the keys of archived flags, which are off anyway."""

    configurations: Mapping[str, Configuration]
    archived: frozenset[str]


def configuration(environment_key: str) -> Configuration:
    """All flags of an environment, also those that have no state there, and all segments."""
    known = compiled.state.configurations
    # An environment of this very moment may be known here a little later than elsewhere in the process.
    return known.get(environment_key, known[_ANYWHERE])


def _load() -> Compiled:
    # First: what lands between this and the documents is then applied once more, and brings its revision.
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
        key: Configuration(_in_order(found), by_key, max(revisions.get(key, 0), revisions.get(_ANYWHERE, 0)))
        for key, found in flags.items()
    }
    return Compiled(configurations, frozenset(archived))


def _revisions() -> Mapping[str, int]:
    """The newest change of a flag or segment in each environment; under `_ANYWHERE`, of what is common to all."""
    changed = (
        Change.objects.filter(kind__in=(flag_changes.KIND, segment_changes.KIND)).order_by().values_list("environment")
    )
    return dict(changed.annotate(newest=Max("revision")))


def _compile(document: Document, environment_keys: Mapping[str, object]) -> Mapping[str, Flag]:
    """A flag as it stands in each environment."""
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
            known, flags=_with(known.flags, change.key, compiled_anew.get(key)), revision=_revision(key, known, change)
        )
        for key, known in now.configurations.items()
    }
    is_archived = change.after is not None and "archivedAt" in change.after
    return Compiled(configurations, now.archived - {change.key} | ({change.key} if is_archived else set()))


def _apply_segment(now: Compiled, change: Change) -> Compiled:
    known = now.configurations[_ANYWHERE].segments
    changed = _with(known, change.key, compile_segment(change.after) if change.after else None)
    configurations = {
        key: replace(each, segments=changed, revision=_revision(key, each, change))
        for key, each in now.configurations.items()
    }
    return replace(now, configurations=configurations)


def _revision(environment_key: str, known: Configuration, change: Change) -> int:
    """The revision of an environment after a change, which moves only where the change is of that environment."""
    bears_on_it = change.environment in ("", environment_key)
    return max(known.revision, change.revision) if bears_on_it else known.revision


def _apply_environment(now: Compiled, change: Change) -> Compiled:
    # What is known of the environment stays: a change may be applied more than once.
    known = {change.key: now.configurations[_ANYWHERE], **now.configurations}
    return replace(now, configurations=known)


def _with(entries: Mapping[str, Entry], key: str, entry: Entry | None) -> Mapping[str, Entry]:
    """A copy with one entry in its place, or without it."""
    changed = dict(entries)
    if entry is None:
        changed.pop(key, None)
        return changed
    is_new = key not in changed
    changed[key] = entry
    return _in_order(changed) if is_new else changed


def _in_order(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """By key, as all processes have them: databases order texts in ways of their own."""
    return dict(sorted(entries.items()))


_APPLY = {flag_changes.KIND: _apply_flag, segment_changes.KIND: _apply_segment, environments.KIND: _apply_environment}

compiled: Table[Compiled] = Table(*_APPLY, load=_load, apply=_apply)
