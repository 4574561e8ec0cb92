"""Writing many flags and segments in a transaction of the caller: one change for each that differs, or none at all."""

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
    """What a flag is to be. Its states in environments that are not named stay as they are.

    `field` is where the caller says so, for what is wrong with it: `flags[3]`.
    """

    field: str
    key: str
    common: Values
    states: States
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What a segment is to be."""

    field: str
    key: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A flag or segment that differs from what it was, if it was there; the documents are those of the change log."""

    kind: str
    key: str
    before: Document | None
    after: Document


def validate_entry(entry: FlagEntry) -> FlagEntry:
    """The entry with the variants that are served. Raises ValidationFailed with all that is to blame."""
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


def write_segments(log: Writing, entries: Sequence[SegmentEntry], known: references.Lookup) -> Sequence[Written]:
    """Make segments what acceptable entries say. Raises ValidationFailed with all that stands against it.

    `known` is what they may name, read not before they are written.
    """
    existing = {each.key: each for each in Segment.objects.filter(key__in=[entry.key for entry in entries])}
    found: list[tuple[SegmentEntry, Segment, Written]] = []
    changed: list[str] = []
    for entry in entries:
        segment = existing.get(entry.key)
        before = None if segment is None else segment_changes.document(segment)
        stamp = Stamp(log.at, log.next_revision() + len(found))
        if segment is None:
            segment = segment_changes.insert(entry.key, entry.values, stamp)
        elif not (new := segment_changes.save(segment, entry.values, stamp)):
            continue
        elif segment_changes.has_other_members(new):
            changed.append(entry.key)
        found.append(
            (entry, segment, Written(segment_changes.KIND, entry.key, before, segment_changes.document(segment)))
        )
    details = [detail for entry, _, each in found for detail in _unknown_to_segment(entry, each.after, known)]
    if details:
        raise ValidationFailed(details)
    for _, segment, each in found:
        log.append(each.kind, object_id=segment.pk, key=each.key, before=each.before, after=each.after)
    segment_changes.announce(log, changed)
    return [each for _, _, each in found]


def write_flags(log: Writing, entries: Sequence[FlagEntry], known: references.Lookup) -> Sequence[Written]:
    """The same for flags."""
    existing = documents([entry.key for entry in entries])
    environments = {each.key: each for each in Environment.objects.all()}
    details = [detail for entry in entries for detail in _unknown_environments(entry, environments)]
    changed: list[FlagEntry] = []
    for entry in entries:
        stamp = Stamp(log.at, log.next_revision() + len(changed))
        there = existing.get(entry.key)
        kept = _keeping_driven(entry, there)
        details += _rules_too_many(kept)
        if _write(kept, there, environments, stamp):
            changed.append(entry)
    after = documents([entry.key for entry in changed])
    for entry in changed:
        before = existing[entry.key][1] if entry.key in existing else None
        details += _objections(entry, before, *after[entry.key], known)
    if details:
        raise ValidationFailed(details)
    return [_append(log, *after[entry.key], existing.get(entry.key)) for entry in changed]


def _keeping_driven(entry: FlagEntry, existing: tuple[Flag, Document] | None) -> FlagEntry:
    """What an entry says, but for rules of experiments: they stay where they stand, and come from nowhere else."""
    standing = existing[1]["states"] if existing else {}
    states = {
        key: {**state, "rules": with_driven_rules(standing.get(key, OFF)["rules"], state["rules"])}
        for key, state in entry.states.items()
    }
    return replace(entry, states=states)


def _rules_too_many(entry: FlagEntry) -> Iterator[Detail]:
    """What an entry says is too much where the rule of an experiment stands before it."""
    for environment_key, state in entry.states.items():
        if len(state["rules"]) > MOST_RULES:
            message = f"Must have at most {MOST_RULES - 1} rules, for the experiment that drives the flag has one."
            yield from _placed(entry, [Detail("rules", DetailCode.OUT_OF_RANGE, message)], environment_key)


def _unknown_to_segment(entry: SegmentEntry, document: Document, known: references.Lookup) -> Iterator[Detail]:
    try:
        references.check_segment(document, known)
    except ValidationFailed as error:
        yield from (replace(each, field=f"{entry.field}.{each.field}") for each in error.details)


def _write(
    entry: FlagEntry, existing: tuple[Flag, Document] | None, environments: Mapping[str, Environment], stamp: Stamp
) -> bool:
    """Write the rows of a flag that differ, and say whether there were any."""
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
    """The environment that the change is one of, or "" where it concerns more than one."""
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


def _objections(
    entry: FlagEntry, before: Document | None, flag: Flag, after: Document, known: references.Lookup
) -> Iterator[Detail]:
    """What stands against a flag as it is now written, by all that is written with it."""
    found: dict[Detail, None] = {}
    for environment_key, state in (entry.states or {_ANYWHERE: OFF}).items():
        try:
            references.check_flag({**in_environment(after, environment_key), **state}, known)
        except ValidationFailed as error:
            found |= dict.fromkeys(_placed(entry, error.details, environment_key))
    yield from found
    if before is None:
        return
    try:
        if not is_same(before.get("variants"), after.get("variants")):
            require_driven_variants_kept(before, after.get("variants", []))
            references.require_variants_not_needed(after, entry.states)
    except DomainError as error:
        yield Detail(f"{entry.field}.variants", DetailCode.INVALID_VALUE, error.message)
    if "archivedAt" in after and "archivedAt" not in before:
        yield from _objections_to_archiving(entry, flag, after)


def _objections_to_archiving(entry: FlagEntry, flag: Flag, after: Document) -> Iterator[Detail]:
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
    """Details by where the entry says the thing: rules stand in their environment, all else in the flag itself."""
    for each in details:
        is_of_state = each.field.startswith(("rules", "enabled"))
        place = f"{entry.field}.environments.{environment_key}" if is_of_state else entry.field
        yield replace(each, field=f"{place}.{each.field}")
