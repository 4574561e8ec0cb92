"""Read and write the rows of a flag, and make their document. `flag_changes` and `bulk` check and log the writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from config.database import insertion
from config.documents import Document
from config.models import Environment
from config.slugs import is_key
from flags.changes.properties import Values, common_document
from flags.models import Flag, FlagState, FlagTag

States = Mapping[str, Document]
"""Whether the flag is on, and its rules, by the key of the environment."""

_OF_A_STATE = ("enabled", "rules")
_FLAG_COLUMNS = tuple(field.attname for field in Flag._meta.concrete_fields)
_STATE_COLUMNS = ("flag_id", "environment_id", "enabled", "rules", "updated_at", "version")
_MOST_KEYS = 10_000
"""In one query. SQLite limits the number of parameters."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time at which rows are written, and the revision of their change."""

    at: datetime
    version: int


def document(flag: Flag) -> Document:
    """Return the whole flag with its state in every environment, as the change log has it."""
    rows = FlagState.objects.filter(flag=flag).order_by("environment__key")
    states = rows.values_list("environment__key", "enabled", "rules")
    by_environment = {key: {"enabled": enabled, "rules": rules} for key, enabled, rules in states}
    return _document(flag, flag.tags, by_environment)


def documents(keys: Collection[str] | None = None) -> dict[str, tuple[Flag, Document]]:
    """Return the flags with these keys, or all, with their documents, ordered by key. It takes three queries."""
    flags, rows, tag_rows = Flag.objects.all(), FlagState.objects.all(), FlagTag.objects.all()
    wanted = None if keys is None else {key for key in keys if is_key(key)}
    if wanted is not None and len(wanted) <= _MOST_KEYS:
        flags = flags.filter(key__in=wanted)
        rows, tag_rows = rows.filter(flag__key__in=wanted), tag_rows.filter(flag__key__in=wanted)
    tags: dict[UUID, list[str]] = defaultdict(list)
    for flag_id, name in tag_rows.order_by("pk").values_list("flag_id", "name"):
        tags[flag_id].append(name)
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    ordered = rows.order_by("environment__key").values_list("flag_id", "environment__key", "enabled", "rules")
    for flag_id, environment_key, enabled, rules in ordered:
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
    return {
        flag.key: (flag, _document(flag, tags[flag.pk], states[flag.pk]))
        for flag in flags.order_by("key")
        if wanted is None or flag.key in wanted
    }


def with_state(document: Document, environment_key: str, state: Document) -> Document:
    """Return the document of a flag with another state in one environment."""
    return with_states(document, {environment_key: state})


def with_states(document: Document, states: States) -> Document:
    """Return the document of a flag with other states in these environments."""
    return {**document, "states": dict(sorted({**document["states"], **states}.items()))}


def common_values(values: Values) -> Values:
    """Return the values that all environments share."""
    return {name: value for name, value in values.items() if name not in _OF_A_STATE}


def state_values(values: Values) -> Document:
    """Return the values that belong to one environment."""
    return {name: values[name] for name in _OF_A_STATE}


def new_flag(key: str, common: Values, stamp: Stamp) -> Flag:
    """Return a new flag, without tags and states, for a caller that saves it."""
    columns = {name: value for name, value in common.items() if name != "tags"}
    return Flag(key=key, created_at=stamp.at, common_updated_at=stamp.at, common_version=stamp.version, **columns)


def set_common(flag: Flag, new: Values, stamp: Stamp) -> Sequence[str]:
    """Give a flag new values that all environments share, except for tags, and return the names of its columns for a
    caller that saves them.
    """
    columns = {name: value for name, value in new.items() if name != "tags"}
    columns |= {"common_updated_at": stamp.at, "common_version": stamp.version}
    for name, value in columns.items():
        setattr(flag, name, value)
    return list(columns)


def insert(key: str, common: Values, stamp: Stamp) -> Flag:
    """Insert a flag, without states, and return it."""
    flag = new_flag(key, common, stamp)
    insertion.execute([*flag_statements([flag]), *tag_statements({flag.pk: common["tags"]})])
    return flag


def save_common(flag: Flag, new: Values, stamp: Stamp) -> None:
    """Save new values of a flag that all environments share."""
    if "tags" in new:
        flag.tag_rows.all().delete()
        insertion.execute(tag_statements({flag.pk: new["tags"]}))
    flag.save(update_fields=set_common(flag, new, stamp))


def save_states(flag: Flag, states: States, environments: Mapping[str, Environment], stamp: Stamp) -> None:
    """Save new states of a flag in some environments. Those of other environments stay unchanged."""
    insertion.execute(state_statements([(flag, states, stamp)], environments))


def flag_statements(flags: Iterable[Flag], make: insertion.Make = insertion.prepare) -> Iterable[insertion.Statement]:
    """Make statements that save flags, new and changed ones, without tags and states."""
    rows = [[getattr(flag, name) for name in _FLAG_COLUMNS] for flag in flags]
    return make(Flag, _FLAG_COLUMNS, rows, insertion.replacing(("id",), _FLAG_COLUMNS))


def tag_statements(
    tags: Mapping[UUID, Sequence[str]], make: insertion.Make = insertion.prepare
) -> Iterable[insertion.Statement]:
    """Make statements that insert tags, given by flag. The caller deletes old ones before."""
    rows = [(flag_id, name) for flag_id, names in tags.items() for name in names]
    return make(FlagTag, ("flag_id", "name"), rows, "")


def state_statements(
    new: Iterable[tuple[Flag, States, Stamp]],
    environments: Mapping[str, Environment],
    make: insertion.Make = insertion.prepare,
) -> Iterable[insertion.Statement]:
    """Make statements that save new states of flags."""
    rows = [
        (flag.pk, environments[key].pk, state["enabled"], state["rules"], stamp.at, stamp.version)
        for flag, states, stamp in new
        for key, state in states.items()
    ]
    then = insertion.replacing(("flag_id", "environment_id"), _STATE_COLUMNS)
    return make(FlagState, _STATE_COLUMNS, rows, then)


def save_state(flag: Flag, state: Document, environment: Environment, stamp: Stamp) -> None:
    """Save a new state of a flag that was read `in_environment`, and update the object to match."""
    save_states(flag, {environment.key: state}, {environment.key: environment}, stamp)
    flag.enabled, flag.stored_rules = state["enabled"], state["rules"]
    flag.updated_at, flag.version = stamp.at, stamp.version


def _document(flag: Flag, tags: list[str], states: States) -> Document:
    return {**common_document(flag, tags), "states": dict(states)}
