"""The entries of users and groups in the change log: what they may do, and that a password was changed."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

import orjson
from django.contrib.auth.models import Group, User

from config.accounts.rights import names_of
from config.change_log.writing import Actor, writing
from config.documents import Document

USER, GROUP = "user", "group"


def document(account: User | Group) -> Document:
    """Return what a user or group may do. Addresses and real names of people stay out of the log."""
    if isinstance(account, Group):
        permissions = sorted(names_of(account.permissions.select_related("content_type")))
        return {"id": str(account.pk), "name": account.name, "permissions": permissions}
    return {
        "id": str(account.pk),
        "username": account.username,
        "active": account.is_active,
        "staff": account.is_staff,
        "superuser": account.is_superuser,
        "groups": sorted(group.name for group in account.groups.all()),
        "permissions": sorted(names_of(account.user_permissions.select_related("content_type"))),
    }


def seen_by_staff(account: User | Group) -> Document:
    """Return what the page of an account shows: what it may do, and of a user the address and the real name."""
    if isinstance(account, Group):
        return document(account)
    names = {"email": account.email, "firstName": account.first_name, "lastName": account.last_name}
    return {**document(account), **names}


def version_of(shown: Document) -> str:
    """Return what differs if what the page of an account shows differs."""
    return sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()


def log_account(
    account: User | Group,
    before: Document | None,
    after: Document | None,
    *,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> None:
    """Log a change of an account, unless that changed nothing the log has. Call it in the same transaction."""
    if before == after:
        return
    kind, name = (GROUP, account.name) if isinstance(account, Group) else (USER, account.username)
    known = after or before or {}
    with writing(actor=actor, now=now, reason=reason) as log:
        log.append(kind, object_id=known["id"], key=name, before=before, after=after)


def log_password(user: User, *, actor: Actor, now: datetime) -> None:
    """Log that somebody set another password for a user."""
    before = document(user)
    log_account(user, before, {**before, "password": "changed"}, actor=actor, now=now)
