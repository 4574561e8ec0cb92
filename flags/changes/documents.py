"""Read and write the rows of a flag, and make their document. `flag_changes` and `bulk` check and log the writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from config.documents import Document
from config.models import Environment
from config.slugs import is_key
from flags.changes.properties import Values, common_document
from flags.models import Flag, FlagState, FlagTag

States = Mapping[str, Document]
"""Whether the flag is on, and its rules, by the key of the environment."""

_OF_A_STATE = ("enabled", "rules")


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time at which rows are written, and the revision of their change."""

    at: datetime
    version: int


def document(flag: Flag) -> Document:
    """Return the whole flag with its state in every environment, as the change log has it."""
    rows = FlagState.objects.filter(flag=flag).order_by("environment__key")
    states = rows.values_list("environment__key", "enabled", "rules")
    return _document(flag, {key: {"enabled": enabled, "rules": rules} for key, enabled, rules in states})


def documents(keys: Collection[str] | None = None) -> dict[str, tuple[Flag, Document]]:
    """Return the flags with these keys, or all, with their documents, ordered by key. It takes three queries."""
    flags, rows = Flag.objects.prefetch_related("tag_rows"), FlagState.objects.order_by("environment__key")
    if keys is not None:
        valid = [key for key in keys if is_key(key)]
        flags, rows = flags.filter(key__in=valid), rows.filter(flag__key__in=valid)
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    for flag_id, environment_key, enabled, rules in rows.values_list("flag_id", "environment__key", "enabled", "rules"):
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
    return {flag.key: (flag, _document(flag, states[flag.pk])) for flag in flags.order_by("key")}


def with_state(document: Document, environment_key: str, state: Document) -> Document:
    """Return the document of a flag with another state in one environment."""
    return {**document, "states": dict(sorted({**document["states"], environment_key: state}.items()))}


def common_values(values: Values) -> Values:
    """Return the values that all environments share."""
    return {name: value for name, value in values.items() if name not in _OF_A_STATE}


def state_values(values: Values) -> Document:
    """Return the values that belong to one environment."""
    return {name: values[name] for name in _OF_A_STATE}


def insert(key: str, common: Values, stamp: Stamp) -> Flag:
    """Insert a flag, without states, and return it."""
    columns = {name: value for name, value in common.items() if name != "tags"}
    flag = Flag.objects.create(
        key=key, created_at=stamp.at, common_updated_at=stamp.at, common_version=stamp.version, **columns
    )
    _insert_tags(flag, common["tags"])
    return flag


def save_common(flag: Flag, new: Values, stamp: Stamp) -> None:
    """Save new values of a flag that all environments share."""
    if "tags" in new:
        flag.tag_rows.all().delete()
        _insert_tags(flag, new["tags"])
    columns = {name: value for name, value in new.items() if name != "tags"}
    columns |= {"common_updated_at": stamp.at, "common_version": stamp.version}
    for name, value in columns.items():
        setattr(flag, name, value)
    flag.save(update_fields=list(columns))


def save_states(flag: Flag, states: States, environments: Mapping[str, Environment], stamp: Stamp) -> None:
    """Save new states of a flag in some environments. Those of other environments stay unchanged."""
    FlagState.objects.bulk_create(
        (
            FlagState(flag=flag, environment=environments[key], updated_at=stamp.at, version=stamp.version, **state)
            for key, state in states.items()
        ),
        update_conflicts=True,
        unique_fields=["flag", "environment"],
        update_fields=["enabled", "rules", "updated_at", "version"],
    )


def save_state(flag: Flag, state: Document, environment: Environment, stamp: Stamp) -> None:
    """Save a new state of a flag that was read `in_environment`, and update the object to match."""
    save_states(flag, {environment.key: state}, {environment.key: environment}, stamp)
    flag.enabled, flag.stored_rules = state["enabled"], state["rules"]
    flag.updated_at, flag.version = stamp.at, stamp.version


def _document(flag: Flag, states: States) -> Document:
    return {**common_document(flag), "states": dict(states)}


def _insert_tags(flag: Flag, names: Collection[str]) -> None:
    FlagTag.objects.bulk_create(FlagTag(flag=flag, name=name) for name in names)
