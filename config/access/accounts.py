"""Users and groups: which rights a user may grant (none that they lack), and their entries in the change log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

import orjson
from django.contrib.auth.models import Group, Permission, User
from django.utils.text import capfirst

from config.change_log.writing import Actor, writing
from config.documents import Document

USER, GROUP = "user", "group"


def account_as_json(account: User | Group) -> Document:
    """Return an account as the change log has it: its rights, but no e-mail address and no real name."""
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
    """Return an account as its page shows it, with the e-mail address and the real name of a user."""
    if isinstance(account, Group):
        return account_as_json(account)
    names = {"email": account.email, "firstName": account.first_name, "lastName": account.last_name}
    return {**account_as_json(account), **names}


def version_of(shown: Document) -> str:
    """Return a digest of what the page of an account shows, to find out whether it has changed."""
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
    """Log a change of an account, unless both documents are equal. Call it in the transaction of the change."""
    if before == after:
        return
    kind, name = (GROUP, account.name) if isinstance(account, Group) else (USER, account.username)
    known = after or before or {}
    with writing(actor=actor, now=now, reason=reason) as log:
        log.append(kind, object_id=known["id"], key=name, before=before, after=after)


def log_password(user: User, *, actor: Actor, now: datetime) -> None:
    """Log that a user has another password."""
    before = account_as_json(user)
    log_account(user, before, {**before, "password": "changed"}, actor=actor, now=now)


def names_of(permissions: Iterable[Permission]) -> set[str]:
    return {f"{permission.content_type.app_label}.{permission.codename}" for permission in permissions}


def describe_permission(permission: Permission) -> str:
    """Return a permission in words, such as `API keys: change`."""
    model = permission.content_type.model_class()
    action, _, name = permission.codename.partition("_")
    if model is None or name != model._meta.model_name:
        return permission.name
    return f"{capfirst(model._meta.verbose_name_plural)}: {action}"


def rights_of(account: User | Group) -> set[str]:
    """Return the permissions of a user or group. Those of an inactive user count, too."""
    if isinstance(account, Group):
        return names_of(account.permissions.select_related("content_type"))
    own = account.user_permissions.select_related("content_type")
    return names_of(own).union(*map(rights_of, account.groups.all()))


def exceeding(granter: User, rights: Iterable[str]) -> list[str]:
    """Return the permissions that the granter lacks, and so may not grant."""
    return [] if granter.is_superuser else sorted(set(rights) - granter.get_all_permissions())


def may_change(granter: User, account: User | Group) -> bool:
    """Return whether the granter has all rights of the account. Otherwise, they could take over more rights."""
    if granter.is_superuser:
        return True
    return not getattr(account, "is_superuser", False) and not exceeding(granter, rights_of(account))
