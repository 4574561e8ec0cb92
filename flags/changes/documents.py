"""The rows that a flag is kept in, and the document that they come to. `flag_changes` and `bulk` write them.

Not here: whether what is written is acceptable, and the change log.
"""

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
"""By the key of an environment, whether the flag is on there, and its rules."""

_OF_A_STATE = ("enabled", "rules")


@dataclass(frozen=True, slots=True)
class Stamp:
    """When rows are written, and the revision of the change that tells of it."""

    at: datetime
    version: int


def document(flag: Flag) -> Document:
    """The whole flag with its state in every environment, as the change log keeps it."""
    rows = FlagState.objects.filter(flag=flag).order_by("environment__key")
    states = rows.values_list("environment__key", "enabled", "rules")
    return _document(flag, {key: {"enabled": enabled, "rules": rules} for key, enabled, rules in states})


def documents(keys: Collection[str] | None = None) -> dict[str, tuple[Flag, Document]]:
    """The flags with these keys, or all, with their documents, ordered by key. Always three queries."""
    flags, rows = Flag.objects.prefetch_related("tag_rows"), FlagState.objects.order_by("environment__key")
    if keys is not None:
        possible = [key for key in keys if is_key(key)]
        flags, rows = flags.filter(key__in=possible), rows.filter(flag__key__in=possible)
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    for flag_id, environment_key, enabled, rules in rows.values_list("flag_id", "environment__key", "enabled", "rules"):
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
    return {flag.key: (flag, _document(flag, states[flag.pk])) for flag in flags.order_by("key")}


def with_state(document: Document, environment_key: str, state: Document) -> Document:
    """The document of a flag as it is with another state in one environment."""
    return {**document, "states": dict(sorted({**document["states"], environment_key: state}.items()))}


def common_values(values: Values) -> Values:
    """Those that all environments share."""
    return {name: value for name, value in values.items() if name not in _OF_A_STATE}


def state_values(values: Values) -> Document:
    """Those that are one environment's own."""
    return {name: values[name] for name in _OF_A_STATE}


def insert(key: str, common: Values, stamp: Stamp) -> Flag:
    """A new flag, which has no states yet."""
    columns = {name: value for name, value in common.items() if name != "tags"}
    flag = Flag.objects.create(
        key=key, created_at=stamp.at, common_updated_at=stamp.at, common_version=stamp.version, **columns
    )
    _insert_tags(flag, common["tags"])
    return flag


def save_common(flag: Flag, new: Values, stamp: Stamp) -> None:
    """Give a flag new values of what all environments share."""
    if "tags" in new:
        flag.tag_rows.all().delete()
        _insert_tags(flag, new["tags"])
    columns = {name: value for name, value in new.items() if name != "tags"}
    columns |= {"common_updated_at": stamp.at, "common_version": stamp.version}
    for name, value in columns.items():
        setattr(flag, name, value)
    flag.save(update_fields=list(columns))


def save_states(flag: Flag, states: States, environments: Mapping[str, Environment], stamp: Stamp) -> None:
    """Give a flag new states in some environments; those of others stay."""
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
    """Give a flag, as it stands in an environment, a new state there; it then stands as if it were read again."""
    save_states(flag, {environment.key: state}, {environment.key: environment}, stamp)
    flag.enabled, flag.stored_rules = state["enabled"], state["rules"]
    flag.updated_at, flag.version = stamp.at, stamp.version


def _document(flag: Flag, states: States) -> Document:
    return {**common_document(flag), "states": dict(states)}


def _insert_tags(flag: Flag, names: Collection[str]) -> None:
    FlagTag.objects.bulk_create(FlagTag(flag=flag, name=name) for name in names)
