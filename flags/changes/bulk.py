"""Write many flags and segments in the caller's transaction: one change for each that differs, or none at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ValidationFailed
from config.models import Environment
from flags.changes import flag_changes, references, segment_changes
from flags.changes.documents import Stamp, States, documents, insert, save_common, save_states
from flags.changes.driven_rules import require_driven_variants_kept, require_not_driven, with_driven_rules
from flags.changes.properties import OFF, Values, in_environment, validate, values_of
from flags.engine.rule_checks import MOST_RULES
from flags.models import Flag, Segment

_ANYWHERE = ""


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """The wanted values of a flag. Its states in environments that are not named stay unchanged.

    `field` is the caller's field for the entry, such as `flags[3]`. Details of refusals name it.
    """

    field: str
    key: str
    common: Values
    states: States
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """The wanted values of a segment. `field` is the caller's field for the entry."""

    field: str
    key: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """The change of one flag or segment, with the documents of the change log. `before` is None if it is new."""

    kind: str
    key: str
    before: Document | None
    after: Document


def validate_entry(entry: FlagEntry) -> FlagEntry:
    """Return the entry, completed with the variants served. Raises ValidationFailed with all details."""
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


def write_segments(log: Writing, entries: Sequence[SegmentEntry], lookup: references.Lookup) -> Sequence[Written]:
    """Write segments from validated entries, and return those that differ.

    `lookup` finds what they name; it must not have read segments before this call, so that it finds
    new ones. Raises ValidationFailed with all details.
    """
    existing = {segment.key: segment for segment in Segment.objects.filter(key__in=[entry.key for entry in entries])}
    writes: list[tuple[SegmentEntry, Segment, Written]] = []
    changed: list[str] = []
    for entry in entries:
        segment = existing.get(entry.key)
        before = None if segment is None else segment_changes.document(segment)
        stamp = Stamp(log.at, log.next_revision() + len(writes))
        if segment is None:
            segment = segment_changes.insert(entry.key, entry.values, stamp)
        elif not (new := segment_changes.save(segment, entry.values, stamp)):
            continue
        elif segment_changes.has_other_members(new):
            changed.append(entry.key)
        after = segment_changes.document(segment)
        writes.append((entry, segment, Written(segment_changes.KIND, entry.key, before, after)))
    details = [detail for entry, _, written in writes for detail in _check_segment(entry, written.after, lookup)]
    if details:
        raise ValidationFailed(details)
    for _, segment, written in writes:
        log.append(written.kind, object_id=segment.pk, key=written.key, before=written.before, after=written.after)
    segment_changes.announce(log, changed)
    return [written for _, _, written in writes]


def write_flags(log: Writing, entries: Sequence[FlagEntry], lookup: references.Lookup) -> Sequence[Written]:
    """Write flags from validated entries, and return those that differ. `lookup` is as for `write_segments`."""
    existing = documents([entry.key for entry in entries])
    environments = {environment.key: environment for environment in Environment.objects.all()}
    details = [detail for entry in entries for detail in _unknown_environments(entry, environments)]
    changed: list[FlagEntry] = []
    for entry in entries:
        stamp = Stamp(log.at, log.next_revision() + len(changed))
        current = existing.get(entry.key)
        completed = _with_driven_rules(entry, current)
        details += _check_number_of_rules(completed)
        if _write(completed, current, environments, stamp):
            changed.append(entry)
    after = documents([entry.key for entry in changed])
    for entry in changed:
        before = existing[entry.key][1] if entry.key in existing else None
        details += _check_flag(entry, before, *after[entry.key], lookup)
    if details:
        raise ValidationFailed(details)
    return [_append(log, *after[entry.key], existing.get(entry.key)) for entry in changed]


def _with_driven_rules(entry: FlagEntry, existing: tuple[Flag, Document] | None) -> FlagEntry:
    """Return an entry with the flag's current rules of experiments, and no others of that type."""
    current = existing[1]["states"] if existing else {}
    states = {
        key: {**state, "rules": with_driven_rules(current.get(key, OFF)["rules"], state["rules"])}
        for key, state in entry.states.items()
    }
    return replace(entry, states=states)


def _check_number_of_rules(entry: FlagEntry) -> Iterator[Detail]:
    """Refuse rules that are too many together with the rule of an experiment."""
    for environment_key, state in entry.states.items():
        if len(state["rules"]) > MOST_RULES:
            message = f"Must have at most {MOST_RULES - 1} rules, because an experiment drives the flag with its own."
            yield from _placed(entry, [Detail("rules", DetailCode.OUT_OF_RANGE, message)], environment_key)


def _check_segment(entry: SegmentEntry, document: Document, lookup: references.Lookup) -> Iterator[Detail]:
    try:
        references.check_segment(document, lookup)
    except ValidationFailed as error:
        yield from (replace(detail, field=f"{entry.field}.{detail.field}") for detail in error.details)


def _write(
    entry: FlagEntry, existing: tuple[Flag, Document] | None, environments: Mapping[str, Environment], stamp: Stamp
) -> bool:
    """Write the rows of a flag that differ, and return whether there were any."""
    flag, document = existing or (None, {"states": {}})
    states = {
        key: state
        for key, state in entry.states.items()
        if key in environments and not (flag and is_same(state, document["states"].get(key, OFF)))
    }
    common = dict(entry.common)
    if flag is not None:
        old = values_of(document, _ANYWHERE)
        common = {name: value for name, value in common.items() if not is_same(value, old[name])}
    if entry.is_archived != (flag is not None and flag.archived_at is not None):
        common["archived_at"] = stamp.at if entry.is_archived else None
    if flag is None:
        flag = insert(entry.key, common, stamp)
    elif common:
        save_common(flag, common, stamp)
    if states:
        save_states(flag, states, environments, stamp)
    return bool(common or states)


def _append(log: Writing, flag: Flag, after: Document, existing: tuple[Flag, Document] | None) -> Written:
    before = existing[1] if existing else None
    touched = _only_environment(before, after)
    log.append(flag_changes.KIND, object_id=flag.pk, key=flag.key, environment=touched, before=before, after=after)
    return Written(flag_changes.KIND, flag.key, before, after)


def _only_environment(before: Document | None, after: Document) -> str:
    """Return the only environment that the change affects, or "" if it affects several."""
    if before is None or not is_same({**before, "states": {}}, {**after, "states": {}}):
        return ""
    old, new = before["states"], after["states"]
    differing = [key for key in new if not is_same(old.get(key), new[key])]
    return differing[0] if len(differing) == 1 else ""


def _unknown_environments(entry: FlagEntry, environments: Collection[str]) -> Iterator[Detail]:
    for key in entry.states:
        if key not in environments:
            message = f"No environment has this key; use one of: {', '.join(environments)}."
            yield Detail(f"{entry.field}.environments.{key}", DetailCode.UNKNOWN_REFERENCE, message)


def _check_flag(
    entry: FlagEntry, before: Document | None, flag: Flag, after: Document, lookup: references.Lookup
) -> Iterator[Detail]:
    """Check a flag that was written, after all others of the call were written."""
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
            references.require_variants_not_needed(after, entry.states)
    except DomainError as error:
        yield Detail(f"{entry.field}.variants", DetailCode.INVALID_VALUE, error.message)
    if "archivedAt" in after and "archivedAt" not in before:
        yield from _check_archiving(entry, flag, after)


def _check_archiving(entry: FlagEntry, flag: Flag, after: Document) -> Iterator[Detail]:
    field = f"{entry.field}.archived"
    untouched = after["states"].keys() - entry.states.keys()
    if on := sorted(key for key in untouched if after["states"][key]["enabled"]):
        message = f"The flag is on in {', '.join(on)}; switch it off there first."
        yield Detail(field, DetailCode.INVALID_VALUE, message)
    try:
        require_not_driven(after, "archive")
        references.require_not_needed(flag, "archive", but_archived=True)
    except DomainError as error:
        yield Detail(field, DetailCode.INVALID_VALUE, error.message)


def _placed(entry: FlagEntry, details: Sequence[Detail], environment_key: str) -> Iterator[Detail]:
    """Yield details with the fields of the entry: its environments have rules, and the flag has all else."""
    for detail in details:
        is_of_state = detail.field.startswith(("rules", "enabled"))
        prefix = f"{entry.field}.environments.{environment_key}" if is_of_state else entry.field
        yield replace(detail, field=f"{prefix}.{detail.field}")
