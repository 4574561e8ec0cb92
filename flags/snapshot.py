"""The compiled flags and segments of every environment in this process.

A change compiles only the flags and segments that it names. The rest is shared with the state before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Max

from config.access import environments
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment, Scope, kinds_of
from config.snapshot import Table, yield_cpu
from flags.changes import flag_changes, segment_changes
from flags.changes.properties import evaluated_as_json, in_environment
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.types import Configuration, Flag, Segment
from flags.models import Flag as FlagRow
from flags.models import FlagState
from flags.models import Segment as SegmentRow

Entry = TypeVar("Entry")

# The key of flags in environments without states, where they are off. No environment has an empty key.
_ANYWHERE = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Configurations by environment key, and the keys of archived flags."""

    configurations: Mapping[str, Configuration]
    archived: frozenset[str]

    def __len__(self) -> int:
        """Return the number of flags and segments."""
        anywhere = self.configurations[_ANYWHERE]
        return len(anywhere.flags) + len(anywhere.segments)


def configuration(environment_key: str) -> Configuration:
    """Return all flags of an environment and all segments. Flags without a state there are off."""
    configurations = compiled.state.configurations
    # This table may learn of a new environment a little later than other tables of the process.
    return configurations.get(environment_key, configurations[_ANYWHERE])


def flags_for(scope: Scope | None, configuration: Configuration) -> Mapping[str, Flag]:
    """Return the flags that a key of this scope may evaluate."""
    return configuration.client_visible if scope is Scope.CLIENT else configuration.flags


def needs_database(environment: Environment, flag_key: str | None = None) -> bool:
    """Return whether an experiment drives this flag, or any flag. The user's variant is then in the database."""
    experiments = configuration(environment.key).experiments
    return bool(experiments) if flag_key is None else flag_key in experiments


def flag_not_found(key: str) -> DomainError:
    """Return the error for a key of a flag that does not exist, or that the caller may not evaluate."""
    return DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {key[:100]!r}.")


def _load() -> Compiled:
    # Revisions are read first. A change that is committed afterwards is applied again, with its revision.
    revisions = _revisions()
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    versions: dict[UUID, dict[str, int]] = defaultdict(dict)
    rows = FlagState.objects.values_list("flag_id", "environment__key", "enabled", "rules", "version")
    for flag_id, environment_key, enabled, rules, version in rows.iterator():
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
        versions[flag_id][environment_key] = version
    flags: dict[str, dict[str, Flag]] = {key: {} for key in Environment.objects.values_list("key", flat=True)}
    flags[_ANYWHERE] = {}
    archived = set()
    for row in FlagRow.objects.iterator():
        if row.archived_at is not None:
            archived.add(row.key)
        yield_cpu()
        as_json = {**evaluated_as_json(row), "states": states[row.pk]}
        own = versions[row.pk]
        newest = {key: max(row.common_version, own.get(key, 0)) for key in flags}
        for environment_key, flag in _compile(as_json, newest).items():
            flags[environment_key][row.key] = flag
    documents = (segment_changes.segment_as_json(row) for row in SegmentRow.objects.iterator())
    by_key = {as_json["key"]: compile_segment(as_json) for as_json in documents}
    configurations = {
        key: Configuration(_in_order(own), by_key, max(revisions.get(key, 0), revisions.get(_ANYWHERE, 0)))
        for key, own in flags.items()
    }
    return Compiled(configurations, frozenset(archived))


def _revisions() -> Mapping[str, int]:
    """Return the newest revision of flags and segments by environment key. `_ANYWHERE` stands for shared changes."""
    kinds = (flag_changes.KIND, *kinds_of(segment_changes.KIND))
    changed = Change.objects.filter(kind__in=kinds).order_by().values_list("environment")
    return dict(changed.annotate(newest=Max("revision")))


def _compile(as_json: Document, versions: Mapping[str, int]) -> Mapping[str, Flag]:
    """Return the compiled flag by environment key. `versions` has its revision in each environment."""

    def compile_in(key: str) -> Flag:
        return compile_flag({**in_environment(as_json, key), "version": versions[key]})

    anywhere = compile_in(_ANYWHERE)
    return {key: compile_in(key) if key in as_json["states"] else anywhere for key in versions}


def _apply(now: Compiled, changes: Sequence[Change]) -> Compiled:
    """Return the state after these changes. It is copied once, not once for each change."""
    draft = _Draft(now, changes)
    newest = {change.key: change.revision for change in changes if change.kind == flag_changes.KIND}
    for change in changes:
        if change.kind == flag_changes.KIND and newest[change.key] != change.revision:
            draft.advance(change)  # a later change has the whole flag, but maybe of another environment
        else:
            draft.add(change)
        yield_cpu()
    return draft.compiled()


class _Draft:
    """A copy of a state to which changes are applied. The original stays unchanged."""

    def __init__(self, now: Compiled, changes: Sequence[Change]) -> None:
        self._now = now
        flags = (change for change in changes if change.kind == flag_changes.KIND)
        self._changed = {(change.key, change.environment): change.revision for change in flags}
        self._flags = {key: own.flags for key, own in now.configurations.items()}
        self._revisions = {key: own.revision for key, own in now.configurations.items()}
        self._copies: dict[str, dict[str, Flag]] = {}
        self._segments: dict[str, Mapping[str, Any] | None] = {}
        self._archived = set(now.archived)

    def add(self, change: Change) -> None:
        _ADD[change.kind](self, change)

    def add_flag(self, change: Change) -> None:
        compiled_anew = _compile(change.after, self._versions(change.key)) if change.after else {}
        for key in self._flags:
            self._set_flag(key, change.key, compiled_anew.get(key))
        self._archived.discard(change.key)
        if change.after is not None and "archivedAt" in change.after:
            self._archived.add(change.key)
        self.advance(change)

    def _versions(self, flag_key: str) -> Mapping[str, int]:
        """Return the revision of the flag's newest change in each environment, including shared changes."""
        common = self._changed.get((flag_key, _ANYWHERE), 0)
        return {
            key: max(self._version(key, flag_key), common, self._changed.get((flag_key, key), 0)) for key in self._flags
        }

    def _version(self, environment_key: str, flag_key: str) -> int:
        flag = self._flags[environment_key].get(flag_key)
        return 0 if flag is None else flag.version

    def _set_flag(self, environment_key: str, flag_key: str, flag: Flag | None) -> None:
        own = self._copies.get(environment_key)
        if own is None:
            own = self._flags[environment_key] = self._copies[environment_key] = dict(self._flags[environment_key])
        if flag is None:
            own.pop(flag_key, None)
        else:
            own[flag_key] = flag

    def add_segment(self, change: Change) -> None:
        self._segments[change.key] = change.after or None
        self.advance(change)

    def add_members(self, change: Change) -> None:
        as_json = self._segments[change.key] if change.key in self._segments else self._stored_segment(change.key)
        if as_json is None:  # deleted since, as a later change says
            return
        user_ids = segment_changes.Members.of(change).applied_to(as_json["userIds"])
        self._segments[change.key] = {**as_json, "userIds": user_ids}
        self.advance(change)

    def _stored_segment(self, key: str) -> Mapping[str, Any] | None:
        segment = self._now.configurations[_ANYWHERE].segments.get(key)
        return None if segment is None else segment.source

    def add_environment(self, change: Change) -> None:
        # A change may be applied more than once, so existing environments stay as they are.
        if change.key not in self._flags:
            self._flags[change.key] = dict(self._flags[_ANYWHERE])
            self._revisions[change.key] = self._revisions[_ANYWHERE]

    def advance(self, change: Change) -> None:
        """Raise the revision of the changed environment, or of all environments for a shared change."""
        for key, revision in self._revisions.items():
            if change.environment in ("", key):
                self._revisions[key] = max(revision, change.revision)

    def compiled(self) -> Compiled:
        flags = {key: _in_order(own) if self._has_new_keys(key, own) else own for key, own in self._flags.items()}
        segments = self._compiled_segments()
        configurations = {key: Configuration(own, segments, self._revisions[key]) for key, own in flags.items()}
        return Compiled(configurations, frozenset(self._archived))

    def _has_new_keys(self, environment_key: str, flags: Mapping[str, Flag]) -> bool:
        before = self._now.configurations.get(environment_key)
        return before is None or not flags.keys() <= before.flags.keys()

    def _compiled_segments(self) -> Mapping[str, Segment]:
        before = self._now.configurations[_ANYWHERE].segments
        if not self._segments:
            return before
        kept = {key: segment for key, segment in before.items() if key not in self._segments}
        changed = {key: compile_segment(as_json) for key, as_json in self._segments.items() if as_json is not None}
        return _in_order({**kept, **changed})


def _in_order(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """Sort by key in Python, because databases sort strings differently."""
    return dict(sorted(entries.items()))


_ADD = {
    flag_changes.KIND: _Draft.add_flag,
    segment_changes.KIND: _Draft.add_segment,
    segment_changes.MEMBERS_KIND: _Draft.add_members,
    environments.KIND: _Draft.add_environment,
}


def _dump(state: Compiled) -> Iterator[Document]:
    """Yield the environments, then each flag, and then each segment."""
    revisions = {key: configuration.revision for key, configuration in state.configurations.items()}
    yield {"revisions": revisions, "archived": sorted(state.archived)}
    anywhere = state.configurations[_ANYWHERE]
    for key, flag in anywhere.flags.items():
        flags = {name: configuration.flags[key] for name, configuration in state.configurations.items()}
        own = {name: each.source for name, each in flags.items() if each is not flag}
        yield {"flag": flag.source, "own": own}
    for segment in anywhere.segments.values():
        yield {"segment": segment.source}


def _restore(entries: Sequence[Document]) -> Compiled:
    environments, *others = entries
    revisions = environments["revisions"]
    flags: dict[str, dict[str, Flag]] = {name: {} for name in revisions}
    segments = {}
    for entry in others:
        if "segment" in entry:
            segments[entry["segment"]["key"]] = compile_segment(entry["segment"])
            continue
        anywhere = compile_flag(entry["flag"])
        for name, own in flags.items():
            own[anywhere.key] = compile_flag(entry["own"][name]) if name in entry["own"] else anywhere
    configurations = {name: Configuration(own, segments, revisions[name]) for name, own in flags.items()}
    return Compiled(configurations, frozenset(environments["archived"]))


compiled: Table[Compiled] = Table(*_ADD, load=_load, apply=_apply, dump=_dump, restore=_restore)
