"""The words of changes of environments, API keys, webhooks, users and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Permission

from config.access import api_keys, environments
from config.access.accounts import GROUP, USER, describe_permission, names_of
from config.change_log.descriptions import name_kind
from config.change_log.sentences import KindWords, Sentences, kind_words, list_sentences, on_change
from config.models import ReasonSetting, Scope, WebhookFormat
from config.webhooks import writes as webhooks

_SCOPES = {str(scope): scope.label.replace(": ", " (", 1) + ")" for scope in Scope}
_REASONS = {str(setting): setting.label.lower() for setting in ReasonSetting}
_FORMATS = {str(form): form.label for form in WebhookFormat}


def from_table(**tables: Mapping[str, str]) -> Any:
    """Return a function that describes the values of properties by a table of each."""
    return lambda path, value, _at: tables[path].get(value) if path in tables and isinstance(value, str) else None


def _default(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    if bool(old) is not bool(new):
        yield "Make it the default environment" if new else "Make another environment the default"


def _secret(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    if old and new:
        yield "Replace the secret"


def _password(_old: Any, new: Any, _at: datetime) -> Iterator[str]:
    if new:
        yield "Set another password"


def _kinds(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    before, after = ([*map(name_kind, kinds or [])] for kinds in (old, new))
    yield from list_sentences("the kinds of objects", before, after)


def _permissions(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    names = _names_of({*(old or []), *(new or [])})
    before, after = ([names.get(right, right) for right in rights or []] for rights in (old, new))
    yield from list_sentences("the permissions", before, after)


def _names_of(rights: set[str]) -> Mapping[str, str]:
    """Return the names of permissions as the forms of accounts show them: `Flags: change`."""
    codenames = {right.partition(".")[2] for right in rights}
    found = Permission.objects.filter(codename__in=codenames).select_related("content_type")
    return {name: describe_permission(permission) for permission in found for name in names_of([permission])}


_RIGHTS: Mapping[str, Sentences] = {"permissions": _permissions}

kind_words[environments.KIND] = KindWords(
    labels={"name": "the name", "changeReason": "the reason of a change"},
    describe_value=from_table(changeReason=_REASONS),
    sentences={
        "isDefault": _default,
        "protected": on_change("Protect the environment", "Stop protecting the environment"),
    },
)
kind_words[api_keys.KIND] = KindWords(
    labels={
        **{"name": "the name", "environment": "the environment", "scope": "the scope", "expiresAt": "the expiry"},
        "prefix": "the first characters of the key",
    },
    describe_value=from_table(scope=_SCOPES),
    sentences={
        "revokedAt": on_change("Revoke the key", "Make the key valid again"),
        "common": on_change(
            "Let it change what all environments share", "Stop it from changing what all environments share"
        ),
    },
)
kind_words[webhooks.KIND] = KindWords(
    labels={
        **{"name": "the name", "url": "the address", "format": "the format", "tags": "the tags"},
        "environments": "the environments",
    },
    describe_value=from_table(format=_FORMATS),
    sentences={
        "pausedAt": on_change("Pause the webhook", "Resume the webhook"),
        "secret": _secret,
        "kinds": _kinds,
    },
)
kind_words[USER] = KindWords(
    labels={
        **{"username": "the user name", "groups": "the groups", "email": "the e-mail address"},
        **{"firstName": "the first name", "lastName": "the last name"},
    },
    sentences={
        "active": on_change("Let the user sign in", "Stop the user from signing in"),
        "staff": on_change("Let the user open the admin", "Stop the user from opening the admin"),
        "superuser": on_change("Make the user a superuser", "Take away the rights of a superuser"),
        "password": _password,
        **_RIGHTS,
    },
)
kind_words[GROUP] = KindWords(labels={"name": "the name"}, sentences=_RIGHTS)
