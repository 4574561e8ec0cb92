"""The admin's pages of API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.urls import reverse

from config.access.api_keys import COMMON_PERMISSIONS, create_key, digest
from config.models import ApiKey, Environment, Scope, Source
from tests.admin import errors_of, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.transactions import case_undone

KEYS = "admin:config_apikey_changelist"


@pytest.fixture
def key(production: Environment) -> ApiKey:
    return create_key(name="Shop", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)[0]


def test_key__created__shows_its_secret_once_and_nowhere_else(production: Environment) -> None:
    client = sign_in()
    before = revision()
    sent = {"name": "Shop", "environment": production.pk, "scope": "manage", "expires_at": ""}
    page = client.post("/admin/config/apikey/add/", sent)
    key = ApiKey.objects.get()
    secret = page.context["secret"]
    assert digest(secret) == key.digest
    assert secret in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    assert secret not in client.get(reverse("admin:config_apikey_change", args=[key.pk])).content.decode()
    assert secret not in str(Session.objects.get().get_decoded())
    change = only_change(after=before)
    assert (change.source, change.key) == (Source.ADMIN, "Shop")
    assert secret not in str(change.after)
    assert not LogEntry.objects.exists()
    api = CommittingClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert api.post("/v1/flags", {"key": "a"}, format="json").status_code == 201


def test_key__with_an_expiry__expires_at_that_time_of_utc(production: Environment) -> None:
    sent = {"name": "Shop", "environment": production.pk, "scope": "client", "expires_at": "2099-01-31T12:00"}
    sign_in().post("/admin/config/apikey/add/", sent)
    assert ApiKey.objects.get().expires_at == datetime(2099, 1, 31, 12, tzinfo=UTC)


def test_key__that_the_domain_refuses__is_not_made(subtests: pytest.Subtests, production: Environment) -> None:
    before = revision()
    for changes, field, words in [
        ({"name": " "}, "name", "Must not be empty; say what the key is for"),
        ({"name": "n" * 201}, "name", "Must be at most 200 characters."),
        ({"expires_at": "2020-01-01T00:00"}, "expires_at", "Must be in the future."),
        ({"expires_at": "tomorrow"}, "expires_at", "Must be a date and time such as 2026-01-31T12:00:00Z."),
        ({"scope": "everything"}, "scope", "valid choice"),
    ]:
        with subtests.test(changes=changes, field=field), case_undone():
            sent = {"name": "Shop", "environment": production.pk, "scope": "client", **changes}
            response = sign_in().post("/admin/config/apikey/add/", sent)
            assert words in errors_of(response)[field][0]
            assert (ApiKey.objects.count(), revision()) == (0, before)


@pytest.mark.parametrize("rights", [(), COMMON_PERMISSIONS])
def test_key__with_common__is_made_only_by_users_who_may_change_what_is_common(
    production: Environment, rights: tuple[str, ...]
) -> None:
    sent = {"name": "Shop", "environment": production.pk, "scope": "manage", "common": "on"}
    response = sign_in("config.add_apikey", *rights).post("/admin/config/apikey/add/", sent)
    assert [key.may_change_common for key in ApiKey.objects.all()] == ([True] if rights else [])
    if not rights:
        assert "requires a key with `common`, or a user with the permissions" in errors_of(response)["common"][0]


@pytest.mark.parametrize("rights", [(), COMMON_PERMISSIONS])
def test_key__with_common__is_revoked_only_by_users_who_may_change_what_is_common(
    production: Environment, rights: tuple[str, ...]
) -> None:
    key, _ = create_key(name="Shop", environment=production, scope=Scope.MANAGE, common=True, actor=ACTOR, now=NOON)
    client = sign_in("config.view_apikey", "config.change_apikey", *rights)
    [message] = messages_of(client.post(reverse("admin:config_apikey_revoke", args=[key.pk]), {"reason": "Leaked"}))
    assert ("is revoked" if rights else "requires a key with `common`") in message
    assert (ApiKey.objects.get().revoked_at is not None) == bool(rights)


def test_key__revoked__is_refused_from_the_next_request_on(production: Environment) -> None:
    key, secret = create_key(name="Shop", environment=production, scope=Scope.SERVER, actor=ACTOR, now=NOON)
    api = CommittingClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert api.get("/v1/flags").status_code == 200
    client = sign_in()
    where = reverse("admin:config_apikey_revoke", args=[key.pk])
    assert "cannot be undone" in text_of(client.get(where))
    before = revision()
    why = "A revoked key stays revoked, because others may know its secret; create a new key instead."
    assert messages_of(client.post(where, {"reason": "Leaked"})) == [f"The key Shop is revoked. {why}"]
    assert why in text_of(client.get(reverse("admin:config_change_change", args=[revision()])))
    assert api.get("/v1/flags").status_code == 401
    change = only_change(after=before)
    assert (change.source, change.reason) == (Source.ADMIN, "Leaked")


def test_key__new__is_undone_by_being_revoked(production: Environment) -> None:
    client, sent = sign_in(), {"name": "Shop", "environment": production.pk, "scope": "client"}
    page = client.post("/admin/config/apikey/add/", sent)
    made = revision()
    undo = reverse("admin:config_change_undo", args=[made])
    assert "The key Shop is created. Undo" in text_of(page)
    assert undo in page.content.decode()
    assert messages_of(client.post(undo))[-1].startswith("The change of Shop is undone. A revoked key stays revoked")
    assert ApiKey.objects.get().revoked_at is not None
    assert "The change of Shop is already undone" in messages_of(client.post(undo))[-1]


def test_key__new_with_common__is_undone_only_by_users_who_may_change_what_is_common(production: Environment) -> None:
    sent = {"name": "Shop", "environment": production.pk, "scope": "manage", "common": "on"}
    sign_in(username="root").post("/admin/config/apikey/add/", sent)
    undo = reverse("admin:config_change_undo", args=[revision()])
    rights = ("config.view_apikey", "config.change_apikey", "config.view_change")
    assert sign_in(*rights, username="eve").post(undo).status_code == 403
    sign_in(*rights, *COMMON_PERMISSIONS, username="ann").post(undo)
    assert ApiKey.objects.get().revoked_at is not None


def test_key__is_never_edited_or_deleted(key: ApiKey) -> None:
    client = sign_in()
    for page in ("change", "delete"):
        where = reverse(f"admin:config_apikey_{page}", args=[key.pk])
        assert client.post(where, {"name": "Other", "post": "yes"}).status_code == 403
    assert ApiKey.objects.get().name == "Shop"


def test_viewer__of_keys__makes_and_revokes_none(key: ApiKey, production: Environment) -> None:
    client = sign_in("config.view_apikey")
    assert client.get(reverse(KEYS)).status_code == 200
    assert client.post(reverse("admin:config_apikey_revoke", args=[key.pk])).status_code == 403
    sent = {"name": "Mine", "environment": production.pk, "scope": "manage"}
    assert client.post("/admin/config/apikey/add/", sent).status_code == 403
    assert ApiKey.objects.get().revoked_at is None


@pytest.mark.parametrize("count", [1, 9])
def test_key_list__takes_the_same_queries(production: Environment, django_assert_num_queries: Any, count: int) -> None:
    for number in range(count):
        create_key(name=f"k{number}", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)
    client = sign_in()
    with django_assert_num_queries(5):  # session, user, environments, count, keys
        response = client.get(reverse(KEYS))
    assert key_digests().isdisjoint(response.content.decode().split('"'))


def key_digests() -> set[str]:
    return set(ApiKey.objects.values_list("digest", flat=True))


def test_key_list__by_state_and_environment__narrows_it(key: ApiKey, staging: Environment) -> None:
    create_key(name="Other", environment=staging, scope=Scope.CLIENT, actor=ACTOR, now=NOON)
    client = sign_in()

    def names(query: str) -> list[str]:
        return [key.name for key in client.get(f"{reverse(KEYS)}?{query}").context["cl"].result_list]

    assert names("environment=staging") == ["Other"]
    assert names("state=revoked") == []
    assert sorted(names("state=live")) == ["Other", "Shop"]
