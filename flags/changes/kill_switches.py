"""Write kill switches, and switch flags off with them."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from config.access.api_keys import digest
from config.change_log.writing import Actor, Writing, changing, writing
from config.documents import Document
from config.errors import Detail, DetailCode, ValidationFailed
from config.models import Environment, Source
from config.slugs import check_name
from config.timestamps import format_timestamp
from flags.changes.bulk import switch_flags
from flags.changes.flag_rows import flags_as_json
from flags.models import Flag, KillSwitch

KIND = "kill_switch"
MAX_FLAGS = 100
_PREFIX_LENGTH = 12


def create_kill_switch(
    *, name: str, environment: Environment, flags: Sequence[str], actor: Actor, now: datetime, reason: str = ""
) -> tuple[KillSwitch, str]:
    """Create a kill switch. Return it with its token, which is not stored. Raises ValidationFailed."""
    token = f"hyd_k_{secrets.token_urlsafe(32)}"
    with writing(actor=actor, now=now, reason=reason) as log:
        _check(name, flags, known=())
        switch = KillSwitch(
            name=name,
            environment=environment,
            flags=[*flags],
            prefix=token[:_PREFIX_LENGTH],
            digest=digest(token),
            version=log.next_revision(),
            created_at=log.at,
        )
        switch.save(force_insert=True)
        _append(log, switch, None)
    return switch, token


def update_kill_switch(
    switch: KillSwitch,
    *,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> KillSwitch:
    """Change the name of a kill switch or its flags. Raises ValidationFailed, or DomainError `precondition_failed`."""
    with changing(partial(_current, switch), if_match, actor=actor, now=now, reason=reason) as (log, switch):
        _check(changes.get("name", switch.name), changes.get("flags", switch.flags), known=switch.flags)
        return _save(log, switch, {name: changes[name] for name in ("name", "flags") if name in changes})


def revoke_kill_switch(switch: KillSwitch, *, actor: Actor, now: datetime, reason: str = "") -> KillSwitch:
    """Refuse the token permanently. Revoking twice changes nothing."""
    with writing(actor=actor, now=now, reason=reason) as log:
        switch = _current(switch)
        return switch if switch.revoked_at else _save(log, switch, {"revoked_at": log.at})


def kill_switch_as_json(switch: KillSwitch) -> Document:
    """Return the kill switch as the change log stores it, without its hash."""
    return {
        "id": str(switch.pk),
        "name": switch.name,
        "environment": switch.environment.key,
        "flags": switch.flags,
        "prefix": switch.prefix,
        "revokedAt": format_timestamp(switch.revoked_at) if switch.revoked_at else None,
    }


def find_live(switch_id: str, token: str) -> KillSwitch | None:
    """Return the kill switch with this id and token, or None if it is revoked."""
    try:
        parsed = UUID(switch_id)
    except ValueError:
        return None
    live = KillSwitch.objects.select_related("environment").filter(revoked_at=None)
    return live.filter(pk=parsed, digest=digest(token)).first()


def actor_of(switch: KillSwitch) -> Actor:
    return Actor(f"kill switch {switch.name}", Source.API, may_change_common=False)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The flags of a call, by what happened to them: switched off, off before, and missing."""

    switched_off: Sequence[str]
    already_off: Sequence[str]
    missing: Sequence[str]


def pull(switch: KillSwitch, flags: Collection[str], *, actor: Actor, now: datetime, reason: str) -> Pulled:
    """Switch flags off by a kill switch. Raises ValidationFailed for a flag that the kill switch does not name."""
    if others := [key for key in flags if key not in switch.flags]:
        message = f"This kill switch does not name the flag {others[0]}; it names {', '.join(switch.flags)}."
        raise ValidationFailed([Detail("flags", DetailCode.UNKNOWN_REFERENCE, message)])
    environment = switch.environment.key
    states = {key: as_json["states"].get(environment, {}) for key, (_, as_json) in flags_as_json(flags).items()}
    pulled = Pulled(
        switched_off=[key for key in flags if key in states and states[key].get("enabled")],
        already_off=[key for key in flags if key in states and not states[key].get("enabled")],
        missing=[key for key in flags if key not in states],
    )
    if pulled.switched_off:
        switch_flags(
            keys=pulled.switched_off, enabled=False, environment=switch.environment, actor=actor, now=now, reason=reason
        )
    return pulled


def _current(switch: KillSwitch) -> KillSwitch:
    return KillSwitch.objects.select_related("environment").get(pk=switch.pk)


def _save(log: Writing, switch: KillSwitch, values: Mapping[str, Any]) -> KillSwitch:
    before = kill_switch_as_json(switch)
    for name, value in values.items():
        setattr(switch, name, value)
    if kill_switch_as_json(switch) != before:
        switch.version = log.next_revision()
        switch.save(update_fields=[*values, "version"])
        _append(log, switch, before)
    return switch


def _append(log: Writing, switch: KillSwitch, before: Document | None) -> None:
    where, after = switch.environment.key, kill_switch_as_json(switch)
    log.append(KIND, object_id=switch.pk, key=switch.name, environment=where, before=before, after=after)


def _check(name: str, flags: Sequence[str], known: Sequence[str]) -> None:
    """Raise ValidationFailed if a value is invalid. Flags in `known` need not exist any more."""
    details = check_name(name, "say which alert uses it")
    if not 1 <= len(flags) <= MAX_FLAGS:
        details.append(Detail("flags", DetailCode.OUT_OF_RANGE, f"Must name 1 to {MAX_FLAGS} flags."))
    if len({*flags}) < len(flags):
        details.append(Detail("flags", DetailCode.DUPLICATE, "Must name each flag once."))
    new = {*flags} - {*known}
    if missing := sorted(new - {*Flag.objects.filter(key__in=new).values_list("key", flat=True)}):
        details.append(Detail("flags", DetailCode.UNKNOWN_REFERENCE, f"There is no flag {missing[0][:100]}."))
    if details:
        raise ValidationFailed(details)
