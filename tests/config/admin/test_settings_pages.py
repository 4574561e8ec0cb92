"""The admin's settings pages: the switch of environments, environments, people and the change log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from config.access.api_keys import create_key
from config.access.environments import create_environment, update_environment
from config.models import ApiKey, Change, Environment, Scope, Source
from flags.changes.flag_changes import create_flag
from tests.admin import AdminClient, errors_of, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.transactions import case_undone

SWITCH = "/admin/config/environment/switch/"


@pytest.fixture
def key(production: Environment) -> ApiKey:
    return create_key(name="Shop", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)[0]


# --- who gets in -----------------------------------------------------------------------------------------------------


def test_admin__of_a_stranger__asks_to_sign_in(db: None) -> None:
    response = AdminClient().get("/admin/flags/flag/")
    assert response.url == "/admin/login/?next=/admin/flags/flag/"
    page = AdminClient().get(response.url)
    assert page.status_code == 200
    assert "Halyard" in text_of(page)
    assert "Production" not in text_of(page)


def test_admin__signed_in_with_no_page_in_mind__shows_the_overview(db: None) -> None:
    User.objects.create_superuser("ada", password="a long password")
    response = AdminClient().post("/admin/login/", {"username": "ada", "password": "a long password"})
    assert (response.status_code, response.url) == (302, "/admin/")


def test_sidebar__lists_only_what_one_may_see(db: None) -> None:
    page = sign_in("flags.view_flag").get("/admin/").content.decode()
    assert 'href="/admin/flags/flag/"' in page
    assert 'href="/admin/config/apikey/"' not in page


# --- the environment -------------------------------------------------------------------------------------------------


def test_switch__to_another_environment__stays_for_the_session(staging: Environment) -> None:
    client = sign_in()
    assert client.get("/admin/").context["current_environment"].key == "production"
    assert client.post(SWITCH, {"environment": "staging", "next": "/admin/flags/flag/?q=a"}).url == (
        "/admin/flags/flag/?q=a"
    )
    assert client.get("/admin/").context["current_environment"] == staging


def test_switch__production_and_others__are_marked_differently(db: None) -> None:
    client = sign_in()
    assert "hy-environment hy-production" in client.get("/admin/").content.decode()
    client.post(SWITCH, {"environment": "staging"})
    assert "hy-environment hy-calm" in client.get("/admin/").content.decode()


def test_switch__protected_environments__are_red(staging: Environment) -> None:
    update_environment(staging, protected=True, actor=ACTOR, now=NOON)
    client = sign_in()
    client.post(SWITCH, {"environment": "staging"})
    assert "hy-environment hy-production" in client.get("/admin/").content.decode()


def test_switch__to_no_environment__changes_nothing(db: None) -> None:
    client = sign_in()
    assert messages_of(client.post(SWITCH, {"environment": "nowhere"})) == ["This environment does not exist."]
    assert client.get("/admin/").context["current_environment"].key == "production"


@pytest.mark.parametrize("page", ["https://elsewhere.example/", "//elsewhere.example/", "/nowhere", ""])
def test_switch__to_a_page_that_is_not_ours__leads_to_the_overview(db: None, page: str) -> None:
    assert sign_in().post(SWITCH, {"environment": "staging", "next": page}).url == "/admin/"


def test_switch__on_the_page_of_an_object__leads_to_what_exists_there_too(production: Environment) -> None:
    flag = create_flag(key="a", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    of_flag = f"/admin/flags/flag/{flag.pk}/change/"
    assert client.post(SWITCH, {"environment": "staging", "next": of_flag}).url == of_flag
    of_experiment = f"/admin/experiments/experiment/{flag.pk}/change/"
    response = client.post(SWITCH, {"environment": "staging", "next": of_experiment})
    assert response.url == "/admin/experiments/experiment/"


# --- environments ----------------------------------------------------------------------------------------------------


def test_environment__added__is_one_change(db: None) -> None:
    before = revision()
    sent = {"key": "load-test", "name": "Load test", "reason": "For May"}
    assert sign_in().post("/admin/config/environment/add/", sent).status_code == 302
    change = only_change(after=before)
    assert (change.key, change.action, change.source, change.reason) == (
        "load-test",
        "created",
        Source.ADMIN,
        "For May",
    )


def test_environment__that_the_domain_refuses__is_refused(subtests: pytest.Subtests, db: None) -> None:
    before = revision()
    for sent, field, words in [
        ({"key": "a b", "name": "A"}, "key", "Must be 1 to 100 letters"),
        ({"key": "staging", "name": "A"}, "key", "exists already"),
        ({"key": "a", "name": " "}, "name", "Must not be empty; give the environment a name that people will read."),
        ({"key": "a", "name": "n" * 201}, "name", "Must be at most 200 characters."),
        ({"key": "a", "name": "nul \0"}, "name", "U+0000"),
    ]:
        with subtests.test(sent=sent, field=field), case_undone():
            response = sign_in().post("/admin/config/environment/add/", sent)
            assert words in errors_of(response)[field][0]
            assert revision() == before


def test_environment__made_the_default__replaces_the_one_that_was(staging: Environment) -> None:
    where = reverse("admin:config_environment_change", args=[staging.pk])
    sent = {"name": "Stage", "is_default": "on", "key": "x", "version": staging.etag}
    assert sign_in().post(where, sent).status_code == 302
    assert Environment.objects.default().key == "staging"
    assert Environment.objects.get(pk=staging.pk).name == "Stage"


def test_environment__protected_by_the_form__is_shown_so_in_the_list(staging: Environment) -> None:
    client, where = sign_in(), reverse("admin:config_environment_change", args=[staging.pk])
    sent = {"name": "Staging", "protected": "on", "change_reason": "required", "version": staging.etag}
    client.post(where, sent)
    changed = Environment.objects.get(pk=staging.pk)
    assert (changed.protected, changed.change_reason) == (True, "required")
    assert "asks first required" in text_of(client.get("/admin/config/environment/"))


def test_environment__edited__is_undone__until_it_changes(staging: Environment) -> None:
    client, where = sign_in(), reverse("admin:config_environment_change", args=[staging.pk])
    client.post(where, {"name": "Stage", "protected": "on", "change_reason": "none", "version": staging.etag})
    made = revision()
    undo = reverse("admin:config_change_undo", args=[made])
    assert undo in client.get(where).content.decode()
    update_environment(staging, name="Trial", actor=ACTOR, now=NOON)
    assert "The environment staging has changed since" in messages_of(client.post(undo))[-1]
    update_environment(staging, name="Stage", actor=ACTOR, now=NOON)
    client.post(undo)
    now = Environment.objects.get(pk=staging.pk)
    assert (now.name, now.protected, now.change_reason) == ("Staging", False, "optional")


def test_environment__new__is_not_undone(db: None) -> None:
    client, why = sign_in(), "An environment cannot be deleted, but you can rename it or leave it unused."
    client.post(reverse("admin:config_environment_add"), {"key": "qa", "name": "<Quality>", "change_reason": "none"})
    page = client.get(reverse("admin:config_environment_changelist"))
    shown = page.content.decode()
    assert f"&lt;Quality&gt;</a>” was added successfully. {why}" in shown
    assert f"/admin/config/change/{revision()}/change/" in shown
    assert "/undo/" not in shown
    assert why in text_of(client.get(reverse("admin:config_change_change", args=[revision()])))
    refused = client.post(reverse("admin:config_change_undo", args=[revision()]))
    assert messages_of(refused)[-1] == f"{why} Nothing was changed."


def test_environment__another_default__is_undone(production: Environment, staging: Environment) -> None:
    client, where = sign_in(), reverse("admin:config_environment_change", args=[staging.pk])
    sent = {"name": "Stage", "is_default": "on", "change_reason": "optional", "version": staging.etag}
    shown = client.get(client.post(where, sent).url).content.decode()
    made = revision()
    assert Environment.objects.default() == staging
    undo = reverse("admin:config_change_undo", args=[Change.objects.latest("revision").write])
    assert undo in shown
    client.post(undo)
    staging.refresh_from_db()
    assert (Environment.objects.default(), staging.name) == (production, "Staging")
    client.post(reverse("admin:config_change_undo", args=[revision()]))
    staging.refresh_from_db()
    assert (Environment.objects.default(), staging.name) == (staging, "Stage")
    trial = create_environment(key="trial", name="Trial", actor=ACTOR, now=NOON)
    update_environment(trial, is_default=True, actor=ACTOR, now=NOON)
    assert "has changed since" in messages_of(client.post(reverse("admin:config_change_undo", args=[made])))[-1]
    assert Environment.objects.default() == trial


def test_environment__the_default_no_longer__is_refused(production: Environment) -> None:
    where = reverse("admin:config_environment_change", args=[production.pk])
    before = revision()
    response = sign_in().post(where, {"name": "Production"})
    assert errors_of(response)["is_default"] == ["Make another environment the default instead."]
    assert revision() == before


def test_environment__is_never_deleted(staging: Environment) -> None:
    where = reverse("admin:config_environment_delete", args=[staging.pk])
    assert sign_in().post(where, {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("count", [1, 9])
def test_environment_list__takes_the_same_queries(db: None, django_assert_num_queries: Any, count: int) -> None:
    for number in range(count):
        create_environment(key=f"e{number}", name="E", actor=ACTOR, now=NOON)
    client = sign_in()
    with django_assert_num_queries(5):  # session, user, environments, count, list
        client.get("/admin/config/environment/")


# --- the change log --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 9])
def test_change_log__takes_the_same_queries(
    production: Environment, django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        create_flag(key=f"f{number}", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    with django_assert_num_queries(5):  # session, user, environments, count, changes
        client.get("/admin/config/change/")


def test_change_log__filter_or_search__narrows_it(
    subtests: pytest.Subtests, key: ApiKey, production: Environment
) -> None:
    create_flag(key="flag-a", environment=production, actor=ACTOR, now=NOON)
    for query, expected in [
        ("kind=flag", ["flag-a"]),
        ("kind=api_key&source=command", ["Shop"]),
        ("source=admin", []),
        ("environment=production", ["Shop"]),
        ("q=flag-", ["flag-a"]),
        ("q=migrate", ["staging", "production"]),
    ]:
        with subtests.test(query=query), case_undone():
            response = sign_in().get(f"/admin/config/change/?{query}")
            assert [row.key for row in response.context["cl"].result_list] == expected


def test_change__shows_what_was_different_and_leads_to_its_object(production: Environment) -> None:
    flag = create_flag(key="a", description="Why", environment=production, actor=ACTOR, now=NOON)
    change = Change.objects.latest("revision")
    response = sign_in().get(reverse("admin:config_change_change", args=[change.pk]))
    assert "Set the description to “Why”" in text_of(response)
    assert f'href="/admin/flags/flag/{flag.pk}/history/"' in response.content.decode()


def test_change__is_never_written_by_hand(db: None) -> None:
    client = sign_in()
    [first, *_] = Change.objects.all()
    for page in ("change", "delete"):
        where = reverse(f"admin:config_change_{page}", args=[first.pk])
        assert client.post(where, {"key": "x", "post": "yes"}).status_code == 403
    assert client.get("/admin/config/change/add/").status_code == 403


# --- people ----------------------------------------------------------------------------------------------------------


def test_page__of_people__is_there(subtests: pytest.Subtests, db: None) -> None:
    for page in ["auth/user/", "auth/user/add/", "auth/group/", "auth/group/add/", "password_change/"]:
        with subtests.test(page=page), case_undone():
            assert sign_in().get(f"/admin/{page}").status_code == 200


def test_user__added__can_sign_in(db: None) -> None:
    sent = {
        "username": "grace",
        "usable_password": "true",
        "password1": "a-long-Passphrase-1",
        "password2": "a-long-Passphrase-1",
    }
    assert sign_in().post("/admin/auth/user/add/", sent).status_code == 302
    assert User.objects.get(username="grace").check_password("a-long-Passphrase-1")


@pytest.mark.parametrize("count", [1, 9])
def test_user_list__takes_the_same_queries(db: None, django_assert_num_queries: Any, count: int) -> None:
    for number in range(count):
        User.objects.create_user(f"user-{number}")
    client = sign_in()
    with django_assert_num_queries(7):  # session, user, environments, count twice, users, groups to filter by
        client.get("/admin/auth/user/")


@pytest.mark.django_db
def test_list__without_rows__says_so_and_offers_to_add_one() -> None:
    client = sign_in()
    text = text_of(client.get(reverse("admin:config_apikey_changelist")))
    assert "No API keys found. New API key" in text
    text = text_of(client.get(reverse("admin:config_apikey_changelist"), {"q": "shop"}))
    assert "No API keys found. Change the search or the filters to see more." in text


# --- the days of the change log --------------------------------------------------------------------------------------


def test_change_log__by_day__has_the_changes_of_those_days(subtests: pytest.Subtests, production: Environment) -> None:
    made = {"first": "2026-05-01T23:59:59.999999", "second": "2026-05-02T23:59:59.5", "third": "2026-05-03"}
    for key, at in made.items():
        create_flag(key=key, environment=production, actor=ACTOR, now=NOON)
        Change.objects.filter(key=key).update(at=datetime.fromisoformat(at).replace(tzinfo=UTC))
    for query, expected in [
        ("", {"first", "second", "third"}),
        ("from=2026-05-02", {"second", "third"}),
        ("to=2026-05-02", {"first", "second"}),
        ("from=2026-05-02&to=2026-05-02", {"second"}),
        ("from=2026-05-02T23:59:59Z", {"second", "third"}),
        ("from=&to=", {"first", "second", "third"}),
        (f"from=2026-05-03&source={ACTOR.source}", {"third"}),
        ("to=2026-05-02&q=first", {"first"}),
    ]:
        with subtests.test(query=query), case_undone():
            page = sign_in().get(f"/admin/config/change/?{query}")
            assert {change.key for change in page.context["cl"].result_list} & made.keys() == expected


def test_change_log__by_what_is_no_day__says_so_and_keeps_the_other_filters(db: None) -> None:
    page = sign_in().get("/admin/config/change/?from=yesterday&source=command&q=a")
    body = page.content.decode()
    assert "Must be a day such as 2026-01-31." in body
    assert not page.context["cl"].result_list
    assert '<input type="hidden" name="source" value="command">' in body
    assert '<input type="hidden" name="q" value="a">' in body
    assert 'name="from" value="yesterday"' in body
