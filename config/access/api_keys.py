"""API keys: creating and revoking them, and recognising the one that a request carries."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from config.access.environments import dump_environment, restore_environment
from config.change_log.reversion import Reversible, Target, UndoPlan, reversibles
from config.change_log.writing import Actor, Writing, writing
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import ApiKey, Change, Environment, Scope, Source
from config.slugs import check_name
from config.snapshot import Table
from config.timestamps import format_timestamp, parse_timestamp

KIND = "api_key"
COMMON_PERMISSIONS = (
    *("config.change_environment", "flags.change_flag"),
    *("flags.change_segment", "experiments.change_metric"),
)
"""A key with `common` can do what these permissions allow, so a user needs all of them to write one."""
_PREFIX_LENGTH = 12


def create_key(
    *,
    name: str,
    environment: Environment,
    scope: Scope,
    common: bool = False,
    expires_at: datetime | None = None,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret, which is not stored: if it gets lost, create another key.

    With `common`, a key of scope `manage` may also change what all environments share. Raises
    ValidationFailed, or DomainError `forbidden` for such a key if the actor may not do so.
    """
    details = _check(name, expires_at, now)
    if common and scope != Scope.MANAGE:
        message = f"Must be false for a key of scope {scope.value}, which changes nothing."
        details.append(Detail("common", DetailCode.INVALID_VALUE, message))
    if details:
        raise ValidationFailed(details)
    if common:
        _require_common(actor)
    secret = f"hyd_{scope.value[0]}_{secrets.token_urlsafe(32)}"
    with writing(actor=actor, now=now, reason=reason) as log:
        key = ApiKey.objects.create(
            name=name,
            environment=environment,
            scope=scope,
            may_change_common=common,
            prefix=secret[:_PREFIX_LENGTH],
            digest=digest(secret),
            created_at=log.at,
            expires_at=expires_at,
        )
        log.append(KIND, object_id=key.pk, key=name, environment=environment.key, before=None, after=key_as_json(key))
    return key, secret


def rotate_key(key: ApiKey, *, overlap: timedelta, actor: Actor, now: datetime, reason: str = "") -> tuple[ApiKey, str]:
    """Create a copy of a key, and let the old key expire after the overlap. Return the new key with its secret.

    Raises DomainError `invalid_transition` if the key is not live, or `forbidden` as `create_key` does.
    """
    if not key.is_live(now):
        raise DomainError(ErrorCode.INVALID_TRANSITION, "This key is expired or revoked; create a new one instead.")
    until = now + overlap if key.expires_at is None else min(key.expires_at, now + overlap)
    with writing(actor=actor, now=now, reason=reason):
        made = create_key(
            name=key.name,
            environment=key.environment,
            scope=Scope(key.scope),
            common=key.scope == Scope.MANAGE and key.may_change_common,
            expires_at=key.expires_at,
            actor=actor,
            now=now,
            reason=reason,
        )
        update_key(key, changes={"expires_at": until}, actor=actor, now=now, reason=reason)
    return made


def limited(actor: Actor, user: User | AnonymousUser) -> Actor:
    """Return the actor of a signed-in user. It may write keys with `common` if the user has COMMON_PERMISSIONS."""
    return replace(actor, may_change_common=user.has_perms(COMMON_PERMISSIONS))


def _require_common(actor: Actor) -> None:
    if not actor.may_change_common:
        message = (
            "A key with `common` may change what is common to all environments. Making, changing or revoking one "
            f"requires a key with `common`, or a user with the permissions {', '.join(COMMON_PERMISSIONS)}."
        )
        raise DomainError(ErrorCode.FORBIDDEN, message, [Detail("common", DetailCode.INVALID_VALUE, message)])


def get_key(key_id: UUID, environment: Environment) -> ApiKey:
    """Return the key of an environment with this id. Raises DomainError `not_found`."""
    key = ApiKey.objects.select_related("environment").filter(environment=environment, pk=key_id).first()
    if key is None:
        raise DomainError(ErrorCode.NOT_FOUND, "No key of this environment has this id; list them with GET /v1/keys.")
    return key


def update_key(key: ApiKey, *, changes: Mapping[str, Any], actor: Actor, now: datetime, reason: str = "") -> ApiKey:
    """Change the name of a key or its expiry, where None means never. Equal values change nothing.

    Raises ValidationFailed, or DomainError `forbidden` if the key has `common` and the actor does not.
    """
    with writing(actor=actor, now=now, reason=reason) as log:
        key = ApiKey.objects.select_related("environment").get(pk=key.pk)
        expires_at = changes.get("expires_at", key.expires_at)
        # An expiry that is sent back as it was read may be in the past.
        if details := _check(changes.get("name", key.name), expires_at if expires_at != key.expires_at else None, now):
            raise ValidationFailed(details)
        before = key_as_json(key)
        for name in changes.keys() & {"name", "expires_at"}:
            setattr(key, name, changes[name])
        _save(log, key, before, list(changes))
    return key


def revoke_key(key: ApiKey, *, actor: Actor, now: datetime, reason: str = "") -> ApiKey:
    """Revoke a key permanently, from the next request on. A revoked key does not change.

    Raises DomainError `forbidden` if the key has `common` and the actor does not.
    """
    with writing(actor=actor, now=now, reason=reason) as log:
        key = ApiKey.objects.select_related("environment").get(pk=key.pk)
        _revoke(log, key)
    return key


def _revoke(log: Writing, key: ApiKey) -> None:
    if key.revoked_at is None:
        before = key_as_json(key)
        key.revoked_at = log.at
        _save(log, key, before, ["revoked_at"])


class Keys(Reversible):
    """The undo of a new key revokes it. Other writes of keys cannot be undone."""

    noun = "key"
    has_steps = True

    def plan(self, changes: Sequence[Change]) -> UndoPlan:
        if any(change.before is not None for change in changes):
            why_not = "A revoked key stays revoked, because others may know its secret; create a new key instead."
            return UndoPlan(why_not=why_not)
        return super().plan(changes)

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        return [key_as_json(key) if (key := _find(change)) else None for change in changes]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        raise AssertionError("The plan allows only new keys, which are revoked.")

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        for change in changes:
            if key := _find(change):
                _revoke(log, key)


reversibles[KIND] = Keys()


def _find(change: Change) -> ApiKey | None:
    return ApiKey.objects.select_related("environment").filter(pk=change.object_id).first()


def _save(log: Writing, key: ApiKey, before: Document, columns: list[str]) -> None:
    after = key_as_json(key)
    if after != before:
        # Nobody changes a key that has more rights than they have.
        if key.scope == Scope.MANAGE and key.may_change_common:
            _require_common(log.actor)
        key.save(update_fields=columns)
        log.append(KIND, object_id=key.pk, key=key.name, environment=key.environment.key, before=before, after=after)


def digest(secret: str) -> str:
    """Return the hash of a secret. A secret has 256 random bits, so a plain hash is safe from dictionaries."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key_as_json(key: ApiKey) -> Document:
    """Return the key as the change log keeps it: everything but its hash."""
    return {
        "id": str(key.pk),
        "name": key.name,
        "environment": key.environment.key,
        "scope": key.scope,
        "common": key.may_change_common,
        "prefix": key.prefix,
        "expiresAt": format_timestamp(key.expires_at) if key.expires_at else None,
        "revokedAt": format_timestamp(key.revoked_at) if key.revoked_at else None,
    }


def _check(name: str, expires_at: datetime | None, now: datetime) -> list[Detail]:
    details = check_name(name, "say what the key is for")
    if expires_at is not None and expires_at <= now:
        details.append(Detail("expiresAt", DetailCode.INVALID_VALUE, "Must be in the future."))
    return details


@dataclass(frozen=True, slots=True)
class LiveKey:
    """A key that is not revoked, in the snapshot that requests are checked against."""

    id: str
    environment: Environment
    scope: Scope
    actor: Actor
    expires_at: datetime | None

    def is_live(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class LiveKeys(dict[str, LiveKey]):
    """Keys by the digests of their secrets."""

    def __init__(self, keys: Mapping[str, LiveKey]) -> None:
        super().__init__(keys)
        self._used: dict[str, LiveKey] = {}

    def find(self, secret: str) -> LiveKey | None:
        """Return the key with this secret. Keys in use are found by the secret itself, because a digest is slow."""
        key = self._used.get(secret)
        if key is None and (key := self.get(digest(secret))) is not None:
            self._used[secret] = key
        return key


def _load() -> LiveKeys:
    return LiveKeys(_prepare(ApiKey.objects.filter(revoked_at=None)))


def _apply(keys: LiveKeys, changes: Sequence[Change]) -> LiveKeys:
    changed = {change.object_id for change in changes}
    kept = {known: key for known, key in keys.items() if key.id not in changed}
    return LiveKeys({**kept, **_prepare(ApiKey.objects.filter(pk__in=changed, revoked_at=None))})


def _prepare(keys: QuerySet[ApiKey]) -> Mapping[str, LiveKey]:
    return {
        key.digest: LiveKey(
            str(key.pk),
            key.environment,
            Scope(key.scope),
            Actor(f"key {key.name}", Source.API, key.may_change_common),
            key.expires_at,
        )
        for key in keys.select_related("environment")
    }


def _dump(keys: LiveKeys) -> Iterator[Document]:
    for known, key in keys.items():
        yield {
            "digest": known,
            "id": key.id,
            "environment": dump_environment(key.environment),
            "scope": key.scope.value,
            "actor": key.actor.name,
            "common": key.actor.may_change_common,
            "expiresAt": format_timestamp(key.expires_at) if key.expires_at else None,
        }


def _restore(entries: Sequence[Document]) -> LiveKeys:
    return LiveKeys({entry["digest"]: _restore_key(entry) for entry in entries})


def _restore_key(entry: Document) -> LiveKey:
    return LiveKey(
        entry["id"],
        restore_environment(entry["environment"]),
        Scope(entry["scope"]),
        Actor(entry["actor"], Source.API, entry["common"]),
        parse_timestamp(entry["expiresAt"]) if entry["expiresAt"] else None,
    )


live_keys: Table[LiveKeys] = Table(KIND, load=_load, apply=_apply, dump=_dump, restore=_restore, goes_first=True)
