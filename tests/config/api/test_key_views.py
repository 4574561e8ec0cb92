"""/v1/keys and /v1/environments, and what keys may change that all environments share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from config.access.api_keys import COMMON_PERMISSIONS, rotate_key
from config.change_log.writing import Actor
from config.errors import DomainError
from config.models import ApiKey, Environment, IdempotencyKey, Scope, Source
from tests.answers import data, error
from tests.conftest import NOON, CommittingClient
from tests.factories import FlagFactory, KeyFactory, UserFactory

KEYS, ENVIRONMENTS = "/v1/keys", "/v1/environments"
ClientOf = Callable[..., CommittingClient]


@pytest.fixture
def own(client_of: ClientOf) -> CommittingClient:
    """A client whose `manage` key may change only what is its own environment's."""
    return client_of(Scope.MANAGE, common=False)


def _refuse(response: Any, field: str) -> None:
    assert [detail["field"] for detail in error(response, 400, "validation_failed")["details"]] == [field]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_key__created__works_and_shows_its_secret_once(own: CommittingClient) -> None:
    created = own.post(KEYS, {"name": "web shop", "scope": "client", "expiresAt": "2099-01-31T00:00:00Z"})
    shown = data(created, 201)
    secret = shown.pop("secret")
    assert secret.startswith(shown["prefix"])
    assert shown["environment"] == "production"
    assert (shown["scope"], shown["common"], shown["expiresAt"]) == ("client", False, "2099-01-31T00:00:00.000000Z")
    assert created["Location"].endswith(f"{KEYS}/{shown['id']}")
    assert data(own.get(created["Location"])) == shown
    assert shown in data(own.get(KEYS))
    with_it = CommittingClient()
    with_it.credentials(HTTP_X_API_KEY=secret)
    FlagFactory(key="known")
    assert with_it.post("/v1/flags/known/evaluate", {"userId": "u"}, format="json").status_code == 200
    assert data(own.post(f"{KEYS}/{shown['id']}/revoke"))["revokedAt"]
    error(with_it.post("/v1/flags/known/evaluate", {"userId": "u"}, format="json"), 401, "unauthenticated")


def test_key__created_twice_by_one_idempotency_key__is_one_and_its_secret_is_not_stored(own: CommittingClient) -> None:
    body = {"name": "web shop", "scope": "client"}
    first, again = (own.post(KEYS, body, HTTP_IDEMPOTENCY_KEY="one") for _ in range(2))
    secret = data(first, 201)["secret"]
    assert again["Idempotent-Replayed"] == "true"
    assert data(again, 201) == {name: value for name, value in data(first, 201).items() if name != "secret"}
    assert ApiKey.objects.filter(name="web shop").count() == 1
    assert secret.encode() not in bytes(IdempotencyKey.objects.get().body or b"")


def test_keys__of_another_environment__are_out_of_reach(own: CommittingClient, staging: Environment) -> None:
    other, _ = KeyFactory(name="other", environment=staging)
    assert "other" not in [key["name"] for key in data(own.get(KEYS))]
    address = f"{KEYS}/{other.pk}"
    error(own.get(address), 404, "not_found")
    error(own.patch(address, {"name": "mine"}), 404, "not_found")
    error(own.post(f"{address}/revoke"), 404, "not_found")
    other.refresh_from_db()
    assert (other.name, other.revoked_at) == ("other", None)


def test_key__changed__has_another_name_and_end_and_the_same_rights(own: CommittingClient) -> None:
    shown = data(own.post(KEYS, {"name": "shop", "scope": "client", "expiresAt": "2099-01-31"}), 201)
    address = f"{KEYS}/{shown['id']}"
    read = data(own.get(address))
    assert data(own.patch(address, {**read, "name": "app"})) == {**read, "name": "app"}
    assert "expiresAt" not in data(own.patch(address, {"expiresAt": None}))
    _refuse(own.patch(address, {"scope": "manage"}), "scope")
    _refuse(own.patch(address, {"common": True}), "common")
    _refuse(own.patch(address, {"expiresAt": "2020-01-31"}), "expiresAt")


def test_key__that_has_expired__is_renamed_as_it_was_read(api: CommittingClient, production: Environment) -> None:
    expired, _ = KeyFactory(scope=Scope.CLIENT, expires_at=NOON + timedelta(microseconds=1))
    address = f"{KEYS}/{expired.pk}"
    read = data(api.get(address))
    assert data(api.patch(address, {**read, "name": "old"})) == {**read, "name": "old"}


def test_key__with_common__is_changed_only_by_a_key_that_has_it(own: CommittingClient, api: CommittingClient) -> None:
    common, _ = KeyFactory(expires_at=NOON + timedelta(days=1))
    address = f"{KEYS}/{common.pk}"
    read = data(own.get(address))
    for changes in ({"expiresAt": None}, {"expiresAt": "2099-01-31"}, {"name": "other"}):
        assert "`common`" in error(own.patch(address, changes), 403, "forbidden")["message"]
    error(own.post(f"{address}/revoke"), 403, "forbidden")
    assert data(own.patch(address, read)) == read == data(own.get(address))
    assert "expiresAt" not in data(api.patch(address, {"expiresAt": None}))
    assert data(api.patch(address, {"name": "other"}))["name"] == "other"
    revoked = data(api.post(f"{address}/revoke"))
    assert data(own.post(f"{address}/revoke")) == revoked


def test_key__without_common__is_changed_and_revoked_by_another_one(own: CommittingClient) -> None:
    key, _ = KeyFactory(common=False)
    address = f"{KEYS}/{key.pk}"
    assert data(own.patch(address, {"name": "other"}))["name"] == "other"
    assert data(own.post(f"{address}/revoke"))["revokedAt"]


@pytest.mark.usefixtures("production")
def test_key__with_common__is_rotated_only_by_those_who_have_it() -> None:
    key, _ = KeyFactory()
    lesser = Actor("key lesser", Source.API, may_change_common=False)
    with pytest.raises(DomainError, match="requires a key with `common`"):
        rotate_key(key, overlap=timedelta(days=1), actor=lesser, now=NOON)
    key.refresh_from_db()
    assert (key.expires_at, ApiKey.objects.filter(name=key.name).count()) == (None, 1)


def test_key__that_cannot_be__is_refused(subtests: pytest.Subtests, api: Any) -> None:
    for sent, field in [
        ({"scope": "client"}, "name"),
        ({"name": "x"}, "scope"),
        ({"name": " ", "scope": "client"}, "name"),
        ({"name": "x", "scope": "admin"}, "scope"),
        ({"name": "x", "scope": "client", "common": True}, "common"),
        ({"name": "x", "scope": "client", "expiresAt": "2020-01-31"}, "expiresAt"),
        ({"name": "x", "scope": "client", "environment": "staging"}, "environment"),
        ({"name": "x", "scope": "client", "secret": "mine"}, "secret"),
    ]:
        with subtests.test(sent=sent, field=field):
            _refuse(api.post(KEYS, sent), field)


def test_keys__listed__come_in_pages_newest_first(own: CommittingClient) -> None:
    for name in "abc":
        data(own.post(KEYS, {"name": name, "scope": "server"}), 201)
    first = own.get(f"{KEYS}?limit=2")
    assert [key["name"] for key in data(first)] == ["c", "b"]
    following = first["Link"].partition("<")[2].partition(">")[0]
    assert data(own.get(following))[0]["name"] == "a"


# --- environments ----------------------------------------------------------------------------------------------------


def test_environment__created_and_changed__is_the_default(api: Any) -> None:
    created = api.post(ENVIRONMENTS, {"key": "qa", "name": "Quality"})
    shown = data(created, 201)
    assert (shown["key"], shown["name"], shown["isDefault"]) == ("qa", "Quality", False)
    assert data(api.get(created["Location"])) == shown
    assert data(api.patch(f"{ENVIRONMENTS}/qa", {**shown, "isDefault": True}))["isDefault"] is True
    listed = data(api.get(ENVIRONMENTS))
    assert [(each["key"], each["isDefault"]) for each in listed] == [
        ("production", False), ("qa", True), ("staging", False),
    ]  # fmt: skip
    _refuse(api.patch(f"{ENVIRONMENTS}/qa", {"isDefault": False}), "isDefault")
    _refuse(api.patch(f"{ENVIRONMENTS}/qa", {"key": "other"}), "key")
    error(api.post(ENVIRONMENTS, {"key": "qa", "name": "Again"}), 409, "already_exists")
    error(api.get(f"{ENVIRONMENTS}/nowhere"), 404, "not_found")


def test_environment__protection_and_reason__are_read_and_set(api: Any) -> None:
    assert data(api.get(f"{ENVIRONMENTS}/production"))["protected"] is True
    sent = {"key": "eu-prod", "name": "EU", "changeReason": "required"}
    shown = data(api.post(ENVIRONMENTS, sent), 201)
    assert (shown["protected"], shown["changeReason"]) == (True, "required")
    changed = data(api.patch(f"{ENVIRONMENTS}/eu-prod", {"protected": False}))
    assert (changed["protected"], changed["changeReason"]) == (False, "required")
    _refuse(api.patch(f"{ENVIRONMENTS}/eu-prod", {"changeReason": "always"}), "changeReason")
    _refuse(api.patch(f"{ENVIRONMENTS}/eu-prod", {"protected": None}), "protected")


# --- what is common --------------------------------------------------------------------------------------------------


def test_common__by_a_key_of_one_environment__is_forbidden_and_named(
    subtests: pytest.Subtests, api: Any, own: CommittingClient
) -> None:
    for flag in ("known", "other"):
        FlagFactory(key=flag)
    data(api.post("/v1/segments", {"key": "known"}), 201)
    data(api.post("/v1/metrics", {"key": "known", "type": "count", "event": "view"}), 201)
    for method, path, body in [
        ("post", ENVIRONMENTS, {"key": "qa", "name": "QA"}),
        ("patch", f"{ENVIRONMENTS}/staging", {"name": "Stage"}),
        ("post", "/v1/segments", {"key": "new"}),
        ("patch", "/v1/segments/known", {"description": "x"}),
        ("delete", "/v1/segments/known", None),
        ("post", "/v1/metrics", {"key": "new", "type": "count", "event": "view"}),
        ("patch", "/v1/metrics/known", {"description": "x"}),
        ("delete", "/v1/metrics/known", None),
        ("patch", "/v1/flags/known", {"type": "string", "variants": [{"key": "a", "value": "A"}]}),
        ("patch", "/v1/flags/known", {"prerequisites": [{"flag": "other"}]}),
        ("post", KEYS, {"name": "x", "scope": "manage", "common": True}),
    ]:
        with subtests.test(method=method, path=path):
            message = error(getattr(own, method)(path, body), 403, "forbidden")["message"]
            assert "all environments" in message
            assert "`common`" in message
            assert getattr(api, method)(path, body).status_code < 300


def test_flag__of_a_key_of_one_environment__is_created_and_changed_and_reverted_there(own: CommittingClient) -> None:
    variants = {"type": "string", "variants": [{"key": "a", "value": "A"}]}
    created = data(own.post("/v1/flags", {"key": "new", **variants}), 201)
    data(own.patch("/v1/flags/new", {"enabled": True, "description": "x", "tags": ["t"], "rules": []}))
    data(own.patch("/v1/flags/new", {**data(own.get("/v1/flags/new")), "enabled": False}))
    first = data(own.get("/v1/flags/new/history"))[-1]["revision"]
    assert data(own.post("/v1/flags/new/revert", {"revision": first}))["enabled"] == created["enabled"]


def test_flag__reverted_to_other_variants_by_a_key_of_one_environment__is_forbidden(
    api: Any, own: CommittingClient
) -> None:
    data(api.post("/v1/flags", {"key": "new"}), 201)
    first = data(api.get("/v1/flags/new/history"))[-1]["revision"]
    data(api.patch("/v1/flags/new", {"type": "string", "variants": [{"key": "a", "value": "A"}]}))
    error(own.post("/v1/flags/new/revert", {"revision": first}), 403, "forbidden")


def test_key__with_common__is_made_and_changed_only_by_users_who_may_change_what_is_common(
    subtests: pytest.Subtests, production: Environment
) -> None:
    for missing in [None, *COMMON_PERMISSIONS]:
        with subtests.test(missing=missing):
            rights = {"config.add_apikey", "config.change_apikey", *COMMON_PERMISSIONS} - {missing}
            client = CommittingClient()
            client.force_login(UserFactory(permissions=rights))
            made = client.post(KEYS, {"name": "x", "scope": "manage", "common": True}, format="json")
            key, _ = KeyFactory(expires_at=NOON + timedelta(days=1))
            prolonged = client.patch(f"{KEYS}/{key.pk}", {"expiresAt": None}, format="json")
            renamed = client.patch(f"{KEYS}/{key.pk}", {"name": "other"}, format="json")
            revoked = client.post(f"{KEYS}/{key.pk}/revoke")
            if missing is None:
                assert data(made, 201)["common"] is True
                assert "expiresAt" not in data(prolonged)
                assert data(renamed)["name"] == "other"
                assert data(revoked)["revokedAt"]
                return
            [detail] = error(made, 403, "forbidden")["details"]
            assert detail["field"] == "common"
            assert missing in detail["message"]
            for refused in (prolonged, renamed, revoked):
                error(refused, 403, "forbidden")
            assert data(client.post(KEYS, {"name": "x", "scope": "manage"}, format="json"), 201)["common"] is False


def test_key__with_common__makes_others_so(client_of: ClientOf) -> None:
    made = data(client_of(Scope.MANAGE).post(KEYS, {"name": "x", "scope": "manage", "common": True}), 201)
    assert made["common"] is True
