"""API keys: made once, stored hashed, gone when revoked."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core import serializers

from config.access import api_keys
from config.access.api_keys import create_key, digest, live_keys, revoke_key
from config.errors import ValidationFailed
from config.models import ApiKey, Change, Environment, Scope
from config.snapshot.tables import current
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}


def test_create__secret__is_stored_nowhere(production: Environment) -> None:
    key, secret = create_key(name="app", environment=production, scope=Scope.CLIENT, **WRITE)

    rows = serializers.serialize("json", [*ApiKey.objects.all(), *Change.objects.all()])
    assert secret not in rows
    assert secret.startswith(key.prefix)
    assert key.digest == digest(secret)
    assert key.digest not in json.dumps([change.after for change in Change.objects.all()])


def test_create__twice__gives_different_secrets(production: Environment) -> None:
    secrets = {create_key(name="app", environment=production, scope=Scope.CLIENT, **WRITE)[1] for _ in range(5)}

    assert len(secrets) == 5
    assert all(len(secret) > 40 for secret in secrets)


def test_find__key_in_use__is_found_without_a_digest_until_it_is_revoked(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = create_key(name="app", environment=production, scope=Scope.CLIENT, **WRITE)
    current.catch_up()
    hashed: list[str] = []
    monkeypatch.setattr(api_keys, "digest", lambda text: hashed.append(text) or digest(text))

    assert {live_keys.state.find(secret).id for _ in range(3)} == {str(key.pk)}
    assert [live_keys.state.find("invented") for _ in range(2)] == [None, None]
    assert hashed == [secret, "invented", "invented"]

    revoke_key(key, actor=ACTOR, now=NOON)
    current.catch_up()
    assert live_keys.state.find(secret) is None


@pytest.mark.parametrize(
    ("values", "field"),
    [({"name": ""}, "name"), ({"name": "n" * 201}, "name"), ({"name": "app", "expires_at": NOON}, "expiresAt")],
)
def test_create__unacceptable__names_the_field(production: Environment, values: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_key(**values, environment=production, scope=Scope.CLIENT, **WRITE)

    assert [detail.field for detail in refused.value.details] == [field]
    assert not ApiKey.objects.exists()


def test_is_live__expiring_key__is_until_that_moment(production: Environment) -> None:
    key, _ = create_key(
        name="app", environment=production, scope=Scope.CLIENT, expires_at=NOON + timedelta(days=1), **WRITE
    )

    assert key.is_live(NOON + timedelta(days=1, microseconds=-1))
    assert not key.is_live(NOON + timedelta(days=1))


def test_revoke__twice__is_logged_once_and_keeps_its_moment(production: Environment) -> None:
    key, _ = create_key(name="app", environment=production, scope=Scope.CLIENT, **WRITE)
    revoked = revoke_key(key, **WRITE)
    again = revoke_key(key, actor=ACTOR, now=revoked.revoked_at + timedelta(days=1))

    assert again.revoked_at == revoked.revoked_at
    assert not again.is_live(NOON)
    assert [change.action for change in Change.objects.of("api_key", key.pk)] == ["changed", "created"]


def test_scope__includes__those_before_it() -> None:
    order = ["client", "server", "manage"]
    for scope in list(Scope):
        for needed in list(Scope):
            assert scope.includes(needed) == (order.index(scope) >= order.index(needed)), (scope, needed)
