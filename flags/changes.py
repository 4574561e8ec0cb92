"""Every write of a flag, whichever door it came through. Each appends the whole flag to the change log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from config.change_log import Actor, Writing, writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.keys import check_key, is_key
from config.models import Environment
from flags.engine.parsing import parse_flag
from flags.models import DESCRIPTION_LENGTH, Flag, FlagState

KIND = "flag"


def get_flag(key: str, environment: Environment) -> Flag:
    """The flag as it stands in an environment. Raises DomainError `flag_not_found`."""
    flag = Flag.objects.in_environment(environment).filter(key=key).first() if is_key(key) else None
    if flag is None:
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {key[:100]!r}; list them with GET /v1/flags.")
    return flag


def create_flag(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    description: str = "",
    enabled: bool = False,
    rules: Any = (),
    reason: str = "",
) -> Flag:
    """Create a flag: as given in this environment, in all others off with the same rules."""
    rules = [] if rules == () else rules
    _check(check_key(key), {"description": description, "rules": rules})
    with writing(actor=actor, at=at, reason=reason) as log:
        if Flag.objects.filter(key=key).exists():
            raise DomainError(
                ErrorCode.ALREADY_EXISTS, f"A flag with the key {key} exists already; choose another key."
            )
        version = log.next_revision()
        flag = Flag.objects.create(
            key=key, description=description, created_at=log.at, common_updated_at=log.at, common_version=version
        )
        FlagState.objects.bulk_create(
            FlagState(
                flag=flag,
                environment=each,
                enabled=enabled and each.pk == environment.pk,
                rules=rules,
                updated_at=log.at,
                version=version,
            )
            for each in Environment.objects.all()
        )
        log.append(KIND, object_id=flag.pk, key=key, before=None, after=document(flag))
        return get_flag(key, environment)


def update_flag(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Flag:
    """Merge `changes` (description, enabled, rules) into a flag. What is equal to what stands there changes nothing."""
    _check([], changes)
    with writing(actor=actor, at=at, reason=reason) as log:
        flag = get_flag(key, environment)
        check_version(flag, if_match)
        before = document(flag)
        has_new_description = _update_common(log, flag, changes)
        if _update_state(log, flag, environment, changes) or has_new_description:
            # A description is common to all environments; a change of it is not one of this environment alone.
            touched = "" if has_new_description else environment.key
            log.append(KIND, object_id=flag.pk, key=key, environment=touched, before=before, after=document(flag))
        return get_flag(key, environment)


def delete_flag(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> None:
    """Delete a flag from all environments, unless it is on in another one. Its history stays in the change log."""
    with writing(actor=actor, at=at, reason=reason) as log:
        flag = get_flag(key, environment)
        check_version(flag, if_match)
        elsewhere = flag.states.filter(enabled=True).exclude(environment=environment).order_by("environment__key")
        if names := list(elsewhere.values_list("environment__key", flat=True)):
            message = f"The flag is on in {', '.join(names)}; switch it off there first."
            raise DomainError(ErrorCode.ENABLED_ELSEWHERE, message)
        before, flag_id = document(flag), flag.pk
        flag.delete()
        log.append(KIND, object_id=flag_id, key=key, before=before, after=None)


def check_version(flag: Flag, if_match: str | None) -> None:
    """Raise DomainError `precondition_failed` unless `If-Match`, where it was sent, names the flag's version."""
    if if_match is None or if_match.strip() == "*":
        return
    if flag.etag not in (tag.strip() for tag in if_match.split(",")):
        message = f"The flag has changed since; read it again and send its ETag, now {flag.etag}."
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)


def document(flag: Flag) -> Document:
    """The whole flag with its state in every environment, as the change log keeps it."""
    states = FlagState.objects.filter(flag=flag).select_related("environment").order_by("environment__key")
    return {
        "id": str(flag.pk),
        "key": flag.key,
        "description": flag.description,
        "states": {state.environment.key: {"enabled": state.enabled, "rules": state.rules} for state in states},
    }


def _update_common(log: Writing, flag: Flag, changes: Mapping[str, Any]) -> bool:
    if changes.get("description", flag.description) == flag.description:
        return False
    flag.description = changes["description"]
    flag.common_updated_at = log.at
    flag.common_version = log.next_revision()
    flag.save(update_fields=["description", "common_updated_at", "common_version"])
    return True


def _update_state(log: Writing, flag: Flag, environment: Environment, changes: Mapping[str, Any]) -> bool:
    old = {"enabled": flag.enabled, "rules": flag.rules}
    new = {name: changes.get(name, value) for name, value in old.items()}
    if is_same(new, old):
        return False
    FlagState.objects.update_or_create(
        flag=flag,
        environment=environment,
        defaults={**new, "updated_at": log.at, "version": log.next_revision()},
    )
    return True


def _check(found: list[Detail], values: Mapping[str, Any]) -> None:
    details = list(found)
    if len(values.get("description", "")) > DESCRIPTION_LENGTH:
        message = f"Must be at most {DESCRIPTION_LENGTH} characters."
        details.append(Detail("description", DetailCode.TOO_LONG, message))
    if "rules" in values:
        try:
            parse_flag({"key": "", "enabled": False, "rules": values["rules"]})
        except ValidationFailed as error:
            details.extend(error.details)
    if details:
        raise ValidationFailed(details)
