"""Users and groups in the admin: each change is logged, and nobody grants more than they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from config.access.accounts import seen_by_staff, version_of
from config.change_log.descriptions import describe_change
from config.models import Change, Source
from config.timestamps import format_timestamp
from tests.admin import sign_in, text_of

pytestmark = pytest.mark.django_db

MANAGES = (
    "view_user",
    "add_user",
    "change_user",
    "delete_user",
    "view_group",
    "add_group",
    "change_group",
    "delete_group",
)
PASSWORD = "correct-horse-battery"


def permission(name: str) -> Permission:
    return Permission.objects.get(codename=name)


def member(name: str, *permissions: str, **values: Any) -> User:
    user = User.objects.create_user(name, is_staff=True, **values)
    user.user_permissions.set([permission(each) for each in permissions])
    return user


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def boss() -> Client:
    return client_of(member("boss", is_superuser=True))


@pytest.fixture
def manager() -> Client:
    """Somebody who may change users, but is no superuser."""
    return client_of(member("manager", *MANAGES, "view_flag"))


def form_of(user: User, **changed: Any) -> dict[str, Any]:
    values = {
        "username": user.username, "is_active": "on",
        "is_staff": "on", "version": version_of(seen_by_staff(user)), **changed,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def changes() -> list[tuple[str, str, str, Any, Any]]:
    rows = Change.objects.filter(kind__in=["user", "group"]).order_by("revision")
    return [(row.kind, row.key, row.actor, row.before, row.after) for row in rows]


def test_dates_of_a_user__are_shown_and_never_edited(boss: Client) -> None:
    ada = member("ada")
    page = boss.get(f"/admin/auth/user/{ada.pk}/change/").content.decode()
    assert f'<time class="hy-moment" datetime="{format_timestamp(ada.date_joined)}"' in page
    assert 'name="date_joined_0"' not in page
    save(boss, ada, date_joined_0="2020-01-01", date_joined_1="00:00:00")
    assert User.objects.get(pk=ada.pk).date_joined == ada.date_joined


def save(client: Client, user: User, **changed: Any) -> Any:
    return client.post(f"/admin/auth/user/{user.pk}/change/", form_of(user, **changed))


def test_user__created__is_logged_without_address_and_password(boss: Client) -> None:
    form = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert boss.post("/admin/auth/user/add/", form).status_code == 302
    [(kind, key, actor, before, after)] = changes()
    assert (kind, key, actor, before) == ("user", "ada", "user boss", None)
    assert after == {
        "id": str(User.objects.get(username="ada").pk), "username": "ada", "active": True, "staff": False,
        "superuser": False, "groups": [], "permissions": [],
    }  # fmt: skip
    assert Change.objects.get(kind="user").source == Source.ADMIN


def test_user__rights_changed__are_logged_together(boss: Client) -> None:
    user, group = member("ada", "view_flag"), Group.objects.create(name="readers")
    rights = [permission("change_flag").pk]
    answer = save(boss, user, user_permissions=rights, groups=[group.pk], is_superuser="on")
    assert answer.status_code == 302
    [(_, _, _, before, after)] = changes()
    assert (before["permissions"], before["groups"], before["superuser"]) == (["flags.view_flag"], [], False)
    assert (after["permissions"], after["groups"], after["superuser"]) == (["flags.change_flag"], ["readers"], True)


def test_user__saved_unchanged_or_with_another_name_of_a_person__is_not_logged(boss: Client) -> None:
    user = member("ada")
    assert save(boss, user, first_name="Ada", email="ada@example.com").status_code == 302
    assert changes() == []


def test_user__password_set_by_another__is_logged_without_it(boss: Client) -> None:
    user = member("ada")
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert boss.post(f"/admin/auth/user/{user.pk}/password/", form).status_code == 302
    [(_, key, actor, before, after)] = changes()
    assert (key, actor, after) == ("ada", "user boss", {**before, "password": "changed"})
    assert PASSWORD not in str(after)


def test_user__own_password__is_logged() -> None:
    user = member("ada", password="old-" + PASSWORD)
    form = {"old_password": "old-" + PASSWORD, "new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client_of(user).post("/admin/password_change/", form).status_code == 302
    [(_, key, actor, _, after)] = changes()
    assert (key, actor, after["password"]) == ("ada", "user ada", "changed")


def delete_one(client: Client, model: str, pk: int) -> Any:
    return client.post(f"/admin/auth/{model}/{pk}/delete/", {"post": "yes"})


def delete_selected(client: Client, model: str, pk: int) -> Any:
    form = {"action": "delete_selected", "_selected_action": [pk], "post": "yes"}
    return client.post(f"/admin/auth/{model}/", form)


@pytest.mark.parametrize("delete", [delete_one, delete_selected])
def test_user__deleted__is_logged(boss: Client, delete: Callable[[Client, str, int], Any]) -> None:
    user = member("ada")
    assert delete(boss, "user", user.pk).status_code == 302
    [(_, key, _, before, after)] = changes()
    assert (key, before["username"], after) == ("ada", "ada", None)


def test_group__created_changed_and_deleted__is_logged(boss: Client) -> None:
    assert boss.post("/admin/auth/group/add/", {"name": "readers"}).status_code == 302
    group = Group.objects.get()
    version = version_of(seen_by_staff(group))
    form = {"name": "readers", "permissions": [permission("view_flag").pk], "version": version}
    assert boss.post(f"/admin/auth/group/{group.pk}/change/", form).status_code == 302
    assert delete_one(boss, "group", group.pk).status_code == 302
    assert [(before and before["permissions"], after and after["permissions"]) for *_, before, after in changes()] == [
        (None, []),
        ([], ["flags.view_flag"]),
        (["flags.view_flag"], None),
    ]


# --- two people edit one account -------------------------------------------------------------------------------------


def test_user__changed_by_somebody_meanwhile__shows_both_versions_until_one_is_chosen(boss: Client) -> None:
    user = member("ada", "view_flag", email="ada@example.com")
    late = form_of(user, email="ada@shop.example", user_permissions=[permission("view_flag").pk])
    user.user_permissions.add(permission("change_flag"))
    user.email = "lovelace@example.com"
    user.save()
    page = boss.post(f"/admin/auth/user/{user.pk}/change/", late)
    conflict = page.context["adminform"].form.conflict
    assert [(each.what, each.first, each.second) for each in conflict.comparisons] == [
        ("permissions", "1 that the other lacks (flags.change_flag)", "none that the other lacks"),
        ("e-mail address", "lovelace@example.com", "ada@shop.example"),
    ]
    assert "Two versions of ada" in page.content.decode()
    assert "Nothing was saved" in page.content.decode()
    user.refresh_from_db()
    assert user.email == "lovelace@example.com"
    again = {**late, "version": page.context["adminform"].form["version"].value()}
    assert boss.post(f"/admin/auth/user/{user.pk}/change/", again).status_code == 302
    user.refresh_from_db()
    assert user.email == "ada@shop.example"
    assert [each.codename for each in user.user_permissions.all()] == ["view_flag"]


def test_group__changed_by_somebody_meanwhile__is_not_saved(boss: Client) -> None:
    group = Group.objects.create(name="readers")
    late = {"name": "writers", "version": version_of(seen_by_staff(group))}
    group.permissions.add(permission("view_flag"))
    page = boss.post(f"/admin/auth/group/{group.pk}/change/", late)
    assert "Two versions of readers" in page.content.decode()
    group.refresh_from_db()
    assert group.name == "readers"
    assert group.permissions.count() == 1


# --- nobody grants more than they have -------------------------------------------------------------------------------


def test_manager__grants_what_they_have__may(manager: Client) -> None:
    user = member("ada")
    assert save(manager, user, user_permissions=[permission("view_flag").pk]).status_code == 302
    assert user.has_perm("flags.view_flag")


@pytest.mark.parametrize("field", ["user_permissions", "groups", "is_superuser"])
def test_manager__grants_more_than_they_have__is_refused(manager: Client, field: str) -> None:
    user, group = member("ada"), Group.objects.create(name="writers")
    group.permissions.add(permission("change_flag"))
    more = {"user_permissions": [permission("change_flag").pk], "groups": [group.pk], "is_superuser": "on"}
    answer = save(manager, user, **{field: more[field]})
    words = (
        "Only a superuser" if field == "is_superuser" else "You cannot grant what you lack yourself: flags.change_flag."
    )
    assert answer.status_code == 200
    assert words in answer.content.decode()
    user = User.objects.get(pk=user.pk)
    assert not user.is_superuser
    assert not user.has_perm("flags.change_flag")
    assert changes() == []


def test_manager__gives_a_group_more_than_they_have__is_refused(manager: Client) -> None:
    form = {"name": "writers", "permissions": [permission("change_flag").pk]}
    answer = manager.post("/admin/auth/group/add/", form)
    assert "You cannot grant what you lack yourself: flags.change_flag." in answer.content.decode()
    assert not Group.objects.exists()


@pytest.mark.parametrize("values", [{"is_superuser": True}, {}])
def test_manager__changes_somebody_with_more_rights__may_not(manager: Client, values: dict[str, Any]) -> None:
    user = member("ada", "change_flag", **values)
    password = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert save(manager, user).status_code == 403
    assert manager.post(f"/admin/auth/user/{user.pk}/password/", password).status_code == 403
    assert delete_one(manager, "user", user.pk).status_code == 403
    delete_selected(manager, "user", user.pk)
    assert User.objects.filter(pk=user.pk).exists()
    assert changes() == []


def test_log__of_accounts__is_readable_in_the_admin_and_the_api(boss: Client) -> None:
    save(boss, member("ada"), is_superuser="on")
    page = boss.get("/admin/config/change/").content.decode()
    assert "ada" in page
    revision = Change.objects.get(kind="user").revision
    assert "superuser" in boss.get(f"/admin/config/change/{revision}/change/").content.decode()
    [entry] = boss.get("/v1/audit?object=user").json()["data"]
    assert entry["object"]["key"] == "ada"


def test_history__of_permissions__names_them_as_the_form_does(boss: Client) -> None:
    user = member("ada")
    save(boss, user, user_permissions=[permission("change_flag").pk])
    change = Change.objects.order_by("-revision").first()
    assert change is not None
    assert "Added Flags: change to the permissions" in describe_change(change).lines


def test_permissions__to_choose_from__are_those_of_pages_in_words_and_those_that_a_group_has() -> None:
    unused = Permission.objects.get(codename="view_logentry")
    group = Group.objects.create(name="testers")
    client = sign_in()
    text = text_of(client.get("/admin/auth/group/add/"))

    assert "API keys: change" in text
    assert "Flags: view" in text
    assert "|" not in text.partition("Permissions")[2]
    assert "Log entries" not in text
    group.permissions.add(unused)
    assert "Log entries: view" in text_of(client.get(f"/admin/auth/group/{group.pk}/change/"))
