"""Write many flags and segments in one transaction: one change for each that differs, or nothing.

Promotions, imports, undos and the actions of the admin's lists use it. All reads and checks come before the
transaction, which is therefore short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from config.change_log.writing import Actor, Basis, NewChange, PreparedChanges, Writing, write_prepared
from config.database import insertion
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ValidationFailed
from config.models import Environment
from flags.changes import references, segment_changes
from flags.changes.driven_rules import (
    require_driven_rule_kept,
    require_driven_variants_kept,
    require_not_driven,
    with_driven_rule,
)
from flags.changes.flag_rows import (
    FlagChange,
    Origin,
    Stamp,
    States,
    change_flag,
    common_values,
    flags_as_json,
    new_flag,
    statements,
)
from flags.changes.properties import OFF, Values, differing, in_environment, validate, values_of
from flags.models import Flag, FlagTag, Segment
from flags.validation.rules import MAX_RULES

_ANYWHERE = ""
_MAX_IDS = 1000
"""In one statement."""


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """The wanted values of a flag. Environments without an entry in `states` stay unchanged.

    `field`: the caller's name of the entry, such as `flags[3]`, which error details repeat.
    `origin`: the identity of a deleted flag that an undo restores.
    """

    field: str
    key: str
    common: Values
    states: States
    is_archived: bool = False
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """The wanted values of a segment. `field` and `origin` are as in `FlagEntry`."""

    field: str
    key: str
    values: Mapping[str, Any]
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The change of one flag or segment, as in the change log. `before` is None if it is new."""

    kind: str
    key: str
    before: Document | None
    after: Document


def entry_of(as_json: Document, source: str, target: str) -> FlagEntry:
    """Return the entry that copies a flag's state from environment `source` to `target`. They may be the same."""
    return FlagEntry(
        field=as_json["key"],
        key=as_json["key"],
        common=common_values(values_of(as_json, source)),
        states={target: as_json["states"].get(source, OFF)},
        is_archived="archivedAt" in as_json,
    )


def validate_entry(entry: FlagEntry) -> FlagEntry:
    """Return the entry with its default and off variants filled in. Raises ValidationFailed with all details."""
    details: dict[Detail, None] = {}
    values: Values = {}
    for environment_key, state in (entry.states or {_ANYWHERE: OFF}).items():
        try:
            values = validate(entry.key, {**entry.common, **state})
        except ValidationFailed as error:
            details |= dict.fromkeys(_placed(entry, error.details, environment_key))
    if details:
        raise ValidationFailed(details)
    return replace(entry, common={name: values[name] for name in entry.common})


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """The writes of all entries that differ, prepared for one revision of the change log."""

    written: Sequence[Written]
    """Segments come before the flags that refer to them."""
    _changes: PreparedChanges
    _retagged: Sequence[UUID]
    _statements: Sequence[insertion.Statement]
    _segments_with_other_members: Sequence[str]

    def write(self, log: Writing) -> None:
        for start in range(0, len(self._retagged), _MAX_IDS):
            FlagTag.objects.filter(flag_id__in=self._retagged[start : start + _MAX_IDS]).delete()
        with insertion.unchecked():
            insertion.execute_all(self._statements)
            log.append_prepared(self._changes)
        segment_changes.announce(log, self._segments_with_other_members)


def prepare(
    basis: Basis,
    *,
    segments: Sequence[SegmentEntry] = (),
    flags: Sequence[FlagEntry] = (),
    granted_segments: Collection[str] = (),
    granted_flags: Collection[str] = (),
) -> PreparedWrite:
    """Check entries and prepare their writes. Nothing is written yet.

    `granted_segments` and `granted_flags` may be referred to, although they are missing or unsuitable. Raises
    ValidationFailed with all details, or DomainError `experiment_locked`.
    """
    environments = {environment.key: environment for environment in Environment.objects.all()}
    existing = flags_as_json([entry.key for entry in flags])
    completed = {entry.key: _with_driven_rule(entry, existing.get(entry.key)) for entry in flags}
    changed_segments = _changed_segments(segments, basis)
    first = Stamp(basis.at, basis.next_revision() + len(changed_segments))
    changed_flags = _changed_flags(completed, existing, environments, first)
    lookup = references.CachedLookup(
        flags=[changed.flag for changed in changed_flags],
        segments=[changed.segment for changed in changed_segments],
        granted_flags=granted_flags,
        granted_segments=granted_segments,
    )
    details = [detail for changed in changed_segments for detail in _check_segment(changed, lookup)]
    details += [detail for entry in flags for detail in _unknown_environments(entry, environments)]
    details += [detail for entry in completed.values() for detail in _check_number_of_rules(entry)]
    sent = {entry.key: entry for entry in flags}
    details += [detail for changed in changed_flags for detail in _check_flag(sent[changed.flag.key], changed, lookup)]
    if details:
        raise ValidationFailed(details)
    return _prepared(basis, changed_segments, changed_flags, environments)


def switch_flags(
    *, keys: Collection[str], enabled: bool, environment: Environment, actor: Actor, now: datetime, reason: str = ""
) -> None:
    """Switch flags on or off in an environment. Raises ValidationFailed."""

    def switched(entry: FlagEntry) -> FlagEntry:
        state = {**entry.states[environment.key], "enabled": enabled}
        return replace(entry, states={environment.key: state})

    _write_selected(keys, environment, switched, {"actor": actor, "now": now, "reason": reason})


def archive_flags(
    *,
    keys: Collection[str],
    environment: Environment,
    actor: Actor,
    now: datetime,
    reason: str = "",
    is_dry_run: bool = False,
) -> None:
    """Archive flags, which turns them off everywhere. A dry run only checks.

    Raises ValidationFailed if an experiment drives one of them, if another flag needs one, or if one is on in another
    environment.
    """
    common = {"actor": actor, "now": now, "reason": reason, "is_dry_run": is_dry_run}
    _write_selected(keys, environment, lambda entry: replace(entry, is_archived=True), common)


def _write_selected(
    keys: Collection[str],
    environment: Environment,
    change: Callable[[FlagEntry], FlagEntry],
    common: Mapping[str, object],
) -> None:
    def prepare_selected(basis: Basis) -> PreparedWrite:
        here = environment.key
        current = [entry_of(as_json, here, here) for _, as_json in flags_as_json(keys).values()]
        return prepare(basis, flags=[change(entry) for entry in current])

    write_prepared(prepare_selected, **common)  # type: ignore[arg-type]  # the actor, the time, the reason and a dry run


@dataclass(frozen=True, slots=True)
class _ChangedSegment:
    entry: SegmentEntry
    segment: Segment
    before: Document | None
    after: Document
    has_other_members: bool

    @property
    def change(self) -> NewChange:
        return NewChange(segment_changes.KIND, self.segment.pk, self.segment.key, self.before, self.after)


def _changed_segments(entries: Sequence[SegmentEntry], basis: Basis) -> Sequence[_ChangedSegment]:
    existing = {segment.key: segment for segment in Segment.objects.filter(key__in=[entry.key for entry in entries])}
    changed: list[_ChangedSegment] = []
    for entry in entries:
        segment = existing.get(entry.key)
        before = None if segment is None else segment_changes.segment_as_json(segment)
        stamp = Stamp(basis.at, basis.next_revision() + len(changed))
        has_other_members = False
        if segment is None:
            segment = segment_changes.new_segment(entry.key, entry.values, stamp)
            segment.pk, segment.created_at = entry.origin or (segment.pk, segment.created_at)
        elif new := segment_changes.set_values(segment, entry.values, stamp):
            has_other_members = segment_changes.has_other_members(new)
        else:
            continue
        after = segment_changes.segment_as_json(segment)
        changed.append(_ChangedSegment(entry, segment, before, after, has_other_members))
    return changed


def _changed_flags(
    entries: Mapping[str, FlagEntry],
    existing: Mapping[str, tuple[Flag, Document]],
    environments: Collection[str],
    first: Stamp,
) -> Sequence[FlagChange]:
    changed: list[FlagChange] = []
    for key, entry in entries.items():
        stamp = replace(first, version=first.version + len(changed))
        flag, before = existing.get(key, (None, None))
        states = _differing_states(entry, before, environments)
        common = _differing_values(entry, flag, before, stamp)
        if flag is None or before is None:
            changed.append(new_flag(key, common, states, stamp, entry.origin))
        elif common or states:
            changed.append(change_flag(flag, before, common, states, stamp))
    return changed


def _differing_states(entry: FlagEntry, before: Document | None, environments: Collection[str]) -> States:
    return {
        key: state
        for key, state in entry.states.items()
        if key in environments and not (before and is_same(state, before["states"].get(key, OFF)))
    }


def _differing_values(entry: FlagEntry, flag: Flag | None, before: Document | None, stamp: Stamp) -> Values:
    common = dict(entry.common)
    if before is not None:
        common = differing(common, values_of(before, _ANYWHERE))
    if entry.is_archived != (flag is not None and flag.archived_at is not None):
        common["archived_at"] = stamp.at if entry.is_archived else None
    return common


def _prepared(
    basis: Basis,
    segments: Sequence[_ChangedSegment],
    flags: Sequence[FlagChange],
    environments: Mapping[str, Environment],
) -> PreparedWrite:
    changes = [*(changed.change for changed in segments), *(changed.log_entry for changed in flags)]
    return PreparedWrite(
        written=[Written(change.kind, change.key, change.before, change.after) for change in changes if change.after],
        _changes=basis.prepare(changes, insertion.stage),
        _retagged=[changed.flag.pk for changed in flags if "tags" in changed.common and changed.before],
        _statements=[
            *segment_changes.staged_statements(changed.segment for changed in segments),
            *statements(flags, environments, insertion.stage),
        ],
        _segments_with_other_members=[changed.segment.key for changed in segments if changed.has_other_members],
    )


def _with_driven_rule(entry: FlagEntry, existing: tuple[Flag, Document] | None) -> FlagEntry:
    """Return the entry with the current rules of experiments in place of those it contains.

    Raises DomainError `experiment_locked` if the entry changes rules before such a rule.
    """
    current = existing[1]["states"] if existing else {}
    states = {}
    for key, state in entry.states.items():
        here = current.get(key, OFF)["rules"]
        rules = with_driven_rule(here, state["rules"])
        require_driven_rule_kept(here, rules, f"the flag {entry.key} in {key}")
        states[key] = {**state, "rules": rules}
    return replace(entry, states=states)


def _check_number_of_rules(entry: FlagEntry) -> Iterator[Detail]:
    """Check the number of rules, including the rule of an experiment."""
    for environment_key, state in entry.states.items():
        if len(state["rules"]) > MAX_RULES:
            message = f"Must have at most {MAX_RULES - 1} rules, because an experiment drives the flag with its own."
            yield from _placed(entry, [Detail("rules", DetailCode.OUT_OF_RANGE, message)], environment_key)


def _check_segment(changed: _ChangedSegment, lookup: references.Lookup) -> Iterator[Detail]:
    try:
        references.check_segment(changed.after, lookup)
    except ValidationFailed as error:
        yield from (replace(detail, field=f"{changed.entry.field}.{detail.field}") for detail in error.details)


def _unknown_environments(entry: FlagEntry, environments: Collection[str]) -> Iterator[Detail]:
    for key in entry.states:
        if key not in environments:
            message = f"No environment has this key; use one of: {', '.join(environments)}."
            yield Detail(f"{entry.field}.environments.{key}", DetailCode.UNKNOWN_REFERENCE, message)


def _check_flag(entry: FlagEntry, changed: FlagChange, lookup: references.Lookup) -> Iterator[Detail]:
    """Check a flag against the other flags and segments that are written with it."""
    before, after = changed.before, changed.after
    details: dict[Detail, None] = {}
    for environment_key, state in (entry.states or {_ANYWHERE: OFF}).items():
        try:
            references.check_flag({**in_environment(after, environment_key), **state}, lookup)
        except ValidationFailed as error:
            details |= dict.fromkeys(_placed(entry, error.details, environment_key))
    yield from details
    if before is None:
        return
    try:
        if not is_same(before.get("variants"), after.get("variants")):
            require_driven_variants_kept(before, after.get("variants", []))
            references.require_variants_not_needed(after, entry.states, lookup)
    except DomainError as error:
        yield Detail(f"{entry.field}.variants", DetailCode.INVALID_VALUE, error.message)
    if "archivedAt" in after and "archivedAt" not in before:
        yield from _check_archiving(entry, changed, lookup)


def _check_archiving(entry: FlagEntry, changed: FlagChange, lookup: references.Lookup) -> Iterator[Detail]:
    field = f"{entry.field}.archived"
    states = changed.after["states"]
    if on := sorted(key for key in states.keys() - entry.states.keys() if states[key]["enabled"]):
        message = f"The flag is on in {', '.join(on)}; switch it off there first."
        yield Detail(field, DetailCode.INVALID_VALUE, message)
    try:
        require_not_driven(changed.after, "archive")
        references.require_not_needed(changed.flag, "archive", but_archived=True, lookup=lookup)
    except DomainError as error:
        yield Detail(field, DetailCode.INVALID_VALUE, error.message)


def _placed(entry: FlagEntry, details: Sequence[Detail], environment_key: str) -> Iterator[Detail]:
    """Yield details with the paths of the entry: `environments.<key>` for rules, and the flag itself otherwise."""
    for detail in details:
        is_of_state = detail.field.startswith(("rules", "enabled"))
        prefix = f"{entry.field}.environments.{environment_key}" if is_of_state else entry.field
        yield replace(detail, field=f"{prefix}.{detail.field}")
