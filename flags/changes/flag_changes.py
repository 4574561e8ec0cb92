"""Write a single flag, for the API, the admin and commands. `bulk` writes many flags."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from config.change_log.writing import Actor, Writing, changing, writing
from config.documents import Document
from config.errors import Detail, DomainError, ErrorCode
from config.models import Environment
from config.slugs import check_key, is_key
from flags.changes import driven_rules, references
from flags.changes.flag_rows import KIND as KIND
from flags.changes.flag_rows import (
    Stamp,
    change_flag,
    common_values,
    new_flag,
    read_flag,
    state_values,
    with_state,
)
from flags.changes.flag_rows import flag_as_json as flag_as_json
from flags.changes.properties import (
    NEW,
    OFF,
    Values,
    differing,
    in_environment,
    merge,
    validate,
    values_of,
    with_decisive_values,
)
from flags.models import Flag, Usage, hour_of

_DECISIVE = frozenset(
    {"type", "variants", "off_variant", "default_variant", "schema", "prerequisites", "client_visible"}
)
"""Shared properties that affect what the flag serves."""


def get_flag(key: str, environment: Environment) -> Flag:
    """Return the flag with its state in an environment. Raises DomainError `flag_not_found`."""
    flags = Flag.objects.in_environment(environment).prefetch_related("tag_rows")
    flag = flags.filter(key=key).first() if is_key(key) else None
    if flag is None:
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {key[:100]!r}; list them with GET /v1/flags.")
    return flag


def create_flag(
    *, key: str, environment: Environment, actor: Actor, now: datetime, reason: str = "", **values: Any
) -> Flag:
    """Create a flag with these values in one environment. In all others it has the same rules and is off.

    `values` are any of description, enabled, rules, type, variants, off_variant, default_variant, schema,
    prerequisites, tags, owner, expires_at and client_visible. Raises ValidationFailed, or DomainError `already_exists`.
    """
    accepted = _accepted(key, values, check_key(key))
    with writing(actor=actor, now=now, reason=reason) as log:
        if Flag.objects.filter(key=key).exists():
            message = f"A flag with the key {key} exists already; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        environments = {row.key: row for row in Environment.objects.all()}
        states = {
            row.key: {"enabled": accepted["enabled"] and row.pk == environment.pk, "rules": accepted["rules"]}
            for row in environments.values()
        }
        new = new_flag(key, common_values(accepted), states, Stamp(log.at, log.next_revision()))
        new.save(environments)
        references.check_flag(in_environment(new.after, environment.key))
        new.append_to(log)
        return get_flag(key, environment)


def update_flag(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Flag:
    """Merge `changes`, named as for `create_flag`, into a flag. None removes a property.

    Nothing is written if nothing differs. Raises ValidationFailed, or DomainError `flag_not_found`,
    `precondition_failed`, `experiment_locked`, or `in_use` if other environments or flags use a removed variant.
    """
    with changing(partial(get_flag, key, environment), if_match, actor=actor, now=now, reason=reason) as (log, flag):
        return change(log, flag, environment, changes)


def switch_flag(
    *, key: str, enabled: bool, environment: Environment, actor: Actor, now: datetime, reason: str = ""
) -> None:
    """Switch a flag on or off in an environment, if it exists."""
    with writing(actor=actor, now=now, reason=reason) as log:
        found = read_flag(key)
        if found is None:
            return
        flag, before = found
        state = before["states"].get(environment.key, OFF)
        if state["enabled"] is not enabled:
            states = {environment.key: {**state, "enabled": enabled}}
            changed = change_flag(flag, before, {}, states, Stamp(log.at, log.next_revision()))
            changed.save({environment.key: environment})
            changed.append_to(log)


def check_state(*, key: str, environment: Environment, changes: Mapping[str, Any]) -> Document:
    """Return the flag as the engine would read it after an update. Nothing is written.

    Raises what `update_flag` would raise.
    """
    before = flag_as_json(get_flag(key, environment))
    values = _validated(before, values_of(before, environment.key), changes)
    decided = with_decisive_values(before, values)
    after = in_environment(with_state(decided, environment.key, state_values(values)), environment.key)
    references.check_flag(after)
    return after


def check_new(*, key: str, environment: Environment, values: Mapping[str, Any]) -> Document:
    """Return a new flag as the engine would read it. Nothing is written.

    Raises what `create_flag` would raise, except for a key that is taken.
    """
    accepted = _accepted(key, values)
    decisive = with_decisive_values({"key": key, "states": {}}, accepted)
    after = in_environment(with_state(decisive, environment.key, state_values(accepted)), environment.key)
    references.check_flag(after)
    return after


def archive_flag(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Flag:
    """Archive a flag, which turns it off everywhere.

    Raises DomainError if another flag or an experiment uses it, or if it is on in another environment.
    """
    with changing(partial(get_flag, key, environment), if_match, actor=actor, now=now, reason=reason) as (log, flag):
        if flag.archived_at is not None:
            return flag
        require_archivable(flag, environment)
        return _set_archived(log, flag, environment, log.at)


def require_archivable(flag: Flag, environment: Environment) -> None:
    """Raise DomainError if an experiment drives the flag, another flag needs it, or another environment has it on."""
    driven_rules.require_not_driven(flag_as_json(flag), "archive")
    _require_off_elsewhere(flag, environment)
    references.require_not_needed(flag, "archive", but_archived=True)


def restore_flag(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Flag:
    """Restore an archived flag with its former values. Raises ValidationFailed while a prerequisite is archived."""
    with changing(partial(get_flag, key, environment), if_match, actor=actor, now=now, reason=reason) as (log, flag):
        if flag.archived_at is None:
            return flag
        restored = _set_archived(log, flag, environment, None)
        references.check_flag(in_environment(flag_as_json(restored), environment.key))
        return restored


def delete_flag(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> None:
    """Delete a flag from all environments. Its history stays in the change log.

    Raises DomainError if another flag or an experiment uses it, or if it is on in another environment.
    """
    with changing(partial(get_flag, key, environment), if_match, actor=actor, now=now, reason=reason) as (log, flag):
        _require_off_elsewhere(flag, environment)
        remove(log, flag, flag_as_json(flag))


def require_deletable(flag: Flag, environment: Environment) -> None:
    """Raise DomainError if another environment has the flag on, an experiment drives it, or another flag needs it."""
    _require_off_elsewhere(flag, environment)
    _require_removable(flag, flag_as_json(flag))


def remove(log: Writing, flag: Flag, before: Document) -> None:
    """Delete a flag, wherever it is on. Raises DomainError if an experiment drives it or another flag needs it."""
    _require_removable(flag, before)
    flag_id = flag.pk
    flag.delete()
    # A new flag with this key must not inherit counts of the hour in which it is created.
    Usage.objects.filter(flag_key=flag.key, hour__gte=hour_of(log.at)).delete()
    log.append(KIND, object_id=flag_id, key=flag.key, before=before, after=None)


def _require_removable(flag: Flag, before: Document) -> None:
    driven_rules.require_not_driven(before, "delete")
    references.require_not_needed(flag, "delete")


def _accepted(key: str, values: Mapping[str, Any], details_of_key: list[Detail] | None = None) -> Values:
    """Return the values of a new flag. Raises ValidationFailed with all details."""
    merged = merge(NEW, values)
    driven_rules.require_driven_rule_kept([], merged["rules"])
    return validate(key, merged, details_of_key)


def change(log: Writing, flag: Flag, environment: Environment, changes: Mapping[str, Any]) -> Flag:
    """Merge `changes` into a flag and log the change, as `update_flag` does."""
    before = flag_as_json(flag)
    old = values_of(before, environment.key)
    values = _validated(before, old, changes)
    new = differing(values, old)
    if not new:
        return flag
    if not _DECISIVE.isdisjoint(new):
        log.actor.require_common("Variants, schemas, prerequisites and clientVisible of flags")
    common, state = common_values(new), state_values(values)
    states = {environment.key: state} if common.keys() != new.keys() else {}
    stamp = Stamp(log.at, log.next_revision())
    changed = change_flag(flag, before, common, states, stamp)
    changed.save({environment.key: environment})
    if new.keys() & {"rules", "prerequisites"}:
        references.check_flag(in_environment(changed.after, environment.key))
    if "variants" in new:
        references.require_variants_not_needed(changed.after, {environment.key})
    changed.append_to(log)
    if common:
        return get_flag(flag.key, environment)
    flag.enabled, flag.stored_rules = state["enabled"], state["rules"]
    flag.updated_at, flag.version = stamp.at, stamp.version
    return flag


def _validated(before: Document, old: Values, changes: Mapping[str, Any]) -> Values:
    merged = merge(old, changes)
    driven_rules.require_driven_rule_kept(old["rules"], merged["rules"])
    driven_rules.require_driven_variants_kept(before, merged["variants"])
    return validate(before["key"], merged)


def _set_archived(log: Writing, flag: Flag, environment: Environment, archived_at: datetime | None) -> Flag:
    stamp = Stamp(log.at, log.next_revision())
    changed = change_flag(flag, flag_as_json(flag), {"archived_at": archived_at}, {}, stamp)
    changed.save({})
    changed.append_to(log)
    return get_flag(flag.key, environment)


def _require_off_elsewhere(flag: Flag, environment: Environment) -> None:
    elsewhere = flag.states.filter(enabled=True).exclude(environment=environment).order_by("environment__key")
    if names := list(elsewhere.values_list("environment__key", flat=True)):
        message = f"The flag is on in {', '.join(names)}; switch it off there first."
        raise DomainError(ErrorCode.ENABLED_ELSEWHERE, message)
