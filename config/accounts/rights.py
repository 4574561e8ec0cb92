"""The rights that users may grant: none that they lack themselves."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group, Permission, User
from django.utils.text import capfirst


def names_of(permissions: Iterable[Permission]) -> set[str]:
    return {f"{permission.content_type.app_label}.{permission.codename}" for permission in permissions}


def describe_permission(permission: Permission) -> str:
    """Return the objects and what one may do with them: `API keys: change`."""
    model = permission.content_type.model_class()
    action, _, name = permission.codename.partition("_")
    if model is None or name != model._meta.model_name:
        return permission.name
    return f"{capfirst(model._meta.verbose_name_plural)}: {action}"


def rights_of(account: User | Group) -> set[str]:
    """Return the permissions that a user or group gives, also while the user is inactive."""
    if isinstance(account, Group):
        return names_of(account.permissions.select_related("content_type"))
    own = account.user_permissions.select_related("content_type")
    return names_of(own).union(*map(rights_of, account.groups.all()))


def exceeding(granter: User, rights: Iterable[str]) -> list[str]:
    """Return those of these permissions that a user lacks, and so may not grant."""
    return [] if granter.is_superuser else sorted(set(rights) - granter.get_all_permissions())


def may_change(granter: User, account: User | Group) -> bool:
    """Return whether a user may change an account: not one with more rights, which they could take over."""
    if granter.is_superuser:
        return True
    return not getattr(account, "is_superuser", False) and not exceeding(granter, rights_of(account))
