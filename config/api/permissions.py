"""Permissions: each action of a view names the scope that a key needs, and the permission that a user needs."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from django.conf import settings
from rest_framework.exceptions import MethodNotAllowed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from config.api.authentication import Caller
from config.models import Scope


class Access(NamedTuple):
    """The minimum scope of a key, and the Django permission of a user, for one action.

    `common` names what the action changes for all environments, such as `Segments`, which requires
    a key with `common`.
    """

    scope: Scope
    permission: str
    common: str = ""


class HasAccess(BasePermission):
    """Compare the caller with `view.access[view.action]`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if view.action not in view.access:
            raise MethodNotAllowed(request.method or "")
        caller = cast(Caller | None, request.auth)
        if caller is None:
            raise NotAuthenticated(_how_to_authenticate())
        needed: Access = view.access[view.action]
        if caller.scope is None:
            if not request.user.has_perm(needed.permission):
                raise PermissionDenied(
                    f"Your user lacks the permission {needed.permission}; ask an administrator for it."
                )
        elif not caller.scope.includes(needed.scope):
            raise PermissionDenied(f"This needs a key of scope {needed.scope.value}; yours has {caller.scope.value}.")
        if needed.common:
            caller.actor.require_common(needed.common)
        return True


def _how_to_authenticate() -> str:
    if settings.ANONYMOUS_SCOPE == "none":
        return "Send an API key as `Authorization: Bearer <key>`; `manage.py create_key` makes one."
    return "Send an API key as `Authorization: Bearer <key>`."
