"""Undoing changes of flags and segments that were made in the admin."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.access.environments import update_environment
from config.models import Change, Environment, ReasonSetting, Source
from flags.changes.flag_changes import create_flag, flag_as_json, get_flag, update_flag
from flags.changes.segment_changes import create_segment, delete_segment, get_segment, update_segment
from flags.models import Flag, Segment
from tests.admin import answer, filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.admin.undos import GONE, HALF, LIST, address, said, switch, undo, undo_addresses


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="f", environment=production, rules=HALF, actor=ACTOR, now=NOON)


def test_toggle__undone_from_its_message__is_a_change_of_its_own(flag: Flag, production: Environment) -> None:
    client = sign_in()
    shown = client.get(switch(client, flag).url)
    made = revision()
    assert undo_addresses(shown) == [f"/admin/config/change/{made}/undo/"]
    done = undo(client, made, next=LIST)
    assert (done.url, said(done)) == (LIST, GONE)
    assert get_flag("f", production).enabled is False
    change = Change.objects.latest("revision")
    assert (change.source, change.actor, change.reason) == (Source.ADMIN, "user ada", f"Undo of change {made}")
    assert undo_addresses(client.get(LIST)) == [f"/admin/config/change/{made + 1}/undo/"]
    undo(client)
    assert get_flag("f", production).enabled is True


def test_bulk_switch__has_one_undo_for_all(flag: Flag, production: Environment) -> None:
    others = [create_flag(key=key, environment=production, actor=ACTOR, now=NOON) for key in ("g", "h")]
    update_flag(key="h", environment=production, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client, before = sign_in(), revision()
    switch(client, flag, *others)
    assert [change.write for change in Change.objects.since(before)] == [before + 1, before + 1]
    assert said(undo(client, before + 2)) == "The 2 changes are undone."
    assert {key: get_flag(key, production).enabled for key in ("f", "g", "h")} == {"f": False, "g": False, "h": True}
    undone = Change.objects.since(before + 2)
    assert [(change.key, change.write) for change in undone] == [("f", before + 3), ("g", before + 3)]


def test_bulk_switch__of_which_one_changed_since__is_not_undone_at_all(flag: Flag, production: Environment) -> None:
    other = create_flag(key="g", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    switch(client, flag, other)
    made = revision()
    update_flag(key="g", environment=production, changes={"enabled": False}, actor=ACTOR, now=NOON)
    before = revision()
    assert (
        said(undo(client, made))
        == "The flag g has changed since, so this cannot be undone. See the history. Nothing was changed."
    )
    assert revision() == before


def test_switch__of_a_flag_whose_rules_changed_since__is_undone_alone(flag: Flag, production: Environment) -> None:
    client = sign_in()
    switch(client, flag)
    made = revision()
    update_flag(key="f", environment=production, changes={"rules": HALF}, actor=ACTOR, now=NOON)
    assert said(undo(client, made)) == GONE
    now = get_flag("f", production)
    assert (now.enabled, now.rules[0]["percentage"]) == (False, 50)


def test_undo__pressed_twice__says_that_it_is_done(flag: Flag, production: Environment) -> None:
    client = sign_in()
    switch(client, flag)
    made = revision()
    undo(client, made)
    assert (
        said(undo(client, made)) == f"The change of f is already undone, by change {made + 1}. Nothing was changed now."
    )
    assert revision() == made + 1


def test_undo__of_no_change__leads_back_with_a_message(flag: Flag) -> None:
    done = undo(sign_in(), 999)
    assert done.status_code == 302
    assert "999" in said(done)


def test_undo__of_a_flag_whose_segment_is_gone__says_so_without_fields(flag: Flag, production: Environment) -> None:
    create_segment(key="s", user_ids=["ada"], actor=ACTOR, now=NOON)
    client, page = sign_in(), address("change", flag)
    update_flag(
        key="f", environment=production, changes={"rules": [{"type": "segment", "segment": "s"}]}, actor=ACTOR, now=NOON
    )
    client.post(page, filled(client, page, rules="[]"))
    made = revision()
    delete_segment(key="s", actor=ACTOR, now=NOON)
    cause = "No segment has the key s; create it first."
    assert said(undo(client, made)) == f"The flag f cannot go back: {cause} Nothing was changed."


def test_undo__leaves_what_others_changed_elsewhere(flag: Flag, production: Environment, staging: Environment) -> None:
    client = sign_in()
    switch(client, flag)
    made = revision()
    update_flag(key="f", environment=staging, changes={"enabled": True, "owner": "Eve"}, actor=ACTOR, now=NOON)
    assert said(undo(client, made)) == GONE
    assert (get_flag("f", production).enabled, get_flag("f", staging).enabled) == (False, True)
    assert get_flag("f", production).owner == "Eve"


def test_form__undone__puts_all_of_its_values_back(flag: Flag, production: Environment) -> None:
    variants = [{"key": "a", "value": "x"}, {"key": "b", "value": "y"}]
    client, then, page = sign_in(), flag_as_json(flag), address("change", flag)
    edits = {"rules": "[]", "description": "New", "tags": "a, b", "type": "string", "variants": json.dumps(variants)}
    assert client.post(page, filled(client, page, expires_at="2030-01-01T00:00", **edits)).status_code == 302
    assert flag_as_json(get_flag("f", production)) != then
    assert said(undo(client)) == GONE
    assert flag_as_json(get_flag("f", production)) == then


@pytest.mark.parametrize("page", ["archive", "delete"])
def test_archiving_and_deleting__are_undone(flag: Flag, production: Environment, page: str) -> None:
    update_flag(key="f", environment=production, changes={"enabled": True, "tags": ["a"]}, actor=ACTOR, now=NOON)
    then, client = flag_as_json(get_flag("f", production)), sign_in()
    client.post(address(page, flag), {"opened_in": "production"})
    assert said(undo(client)) == GONE
    assert flag_as_json(get_flag("f", production)) == then
    assert get_flag("f", production).created_at == flag.created_at
    assert Change.objects.of("flag", flag.pk).count() == 4


def test_creation__undone__is_deleted_unless_it_changed(production: Environment) -> None:
    client, add = sign_in(), reverse("admin:flags_flag_add")
    client.post(add, filled(client, add, key="new", enabled="on"))
    made = revision()
    update_flag(key="new", environment=production, changes={"enabled": False}, actor=ACTOR, now=NOON)
    assert "The flag new has changed since" in said(undo(client, made))
    update_flag(key="new", environment=production, changes={"enabled": True}, actor=ACTOR, now=NOON)
    done = undo(client, made, next=address("change", Flag.objects.get()))
    assert done.url == LIST
    assert not Flag.objects.exists()
    create_flag(key="new", environment=production, actor=ACTOR, now=NOON)
    assert "There is another flag new by now" in said(undo(client, revision() - 1))


def test_bulk_archive__names_the_flags_and_is_undone_as_one(flag: Flag, production: Environment) -> None:
    other = create_flag(key="g", environment=production, actor=ACTOR, now=NOON)
    client, before = sign_in(), revision()
    selected = [str(flag.pk), str(other.pk)]
    page = client.post(LIST, {"action": "production:archive", "_selected_action": selected, "index": "0"})
    assert "Archive 2 flags?" in text_of(page)
    assert "g was not evaluated in the last day." in text_of(page)
    assert revision() == before
    done = answer(client, page, typed_name="Production", reason="Stale")
    assert messages_of(done) == ["2 flags are archived."]
    assert {change.reason for change in Change.objects.since(before)} == {"Stale"}
    assert Flag.objects.filter(archived_at=None).count() == 0
    undo(client)
    assert Flag.objects.filter(archived_at=None).count() == 2


def test_bulk_archive__of_archived_flags__changes_nothing(flag: Flag) -> None:
    client = sign_in()
    client.post(address("archive", flag), {"opened_in": "production"})
    before, where = revision(), f"{LIST}?shelf=archived"
    done = client.post(where, {"action": "production:archive", "_selected_action": [str(flag.pk)], "index": "0"})
    assert (said(done), revision()) == ("All of these flags are archived.", before)


def test_bulk_archive__of_which_one_is_on_elsewhere__is_refused(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    update_flag(key="f", environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client, before = sign_in(), revision()
    page = client.post(LIST, {"action": "production:archive", "_selected_action": [str(flag.pk)], "index": "0"})
    assert page.url == LIST  # nobody is asked about what would be refused
    assert "The flag is on in staging" in said(page)
    assert revision() == before


def test_undo__in_an_environment_that_requires_reasons__needs_none(flag: Flag, production: Environment) -> None:
    client = sign_in()
    switch(client, flag)
    made = revision()
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    assert said(undo(client, made)) == GONE


def test_undo__after_ten_minutes__is_refused(flag: Flag) -> None:
    client = sign_in()
    switch(client, flag)
    made = revision()
    Change.objects.filter(revision=made).update(at=timezone.now() - timedelta(minutes=10, seconds=1))
    page = client.get(reverse("admin:config_change_change", args=[made]))
    assert "Until" not in text_of(page)
    assert (
        said(undo(client, made)) == "It is too late to undo this change: 10 minutes have passed. Nothing was changed."
    )


def test_undo__of_a_change_of_the_api__is_refused(flag: Flag, api: Any) -> None:
    api.patch("/v1/flags/f", {"enabled": True})
    client = sign_in()
    assert undo_addresses(client.get(reverse("admin:config_change_change", args=[revision()]))) == []
    assert said(undo(client)) == "This change cannot be undone. Nothing was changed."


def test_undo__without_the_right__is_forbidden(flag: Flag) -> None:
    switch(sign_in(), flag)
    made, viewer = revision(), sign_in("flags.view_flag", "config.view_change", username="eve")
    assert undo(viewer).status_code == 403
    assert undo_addresses(viewer.get(reverse("admin:config_change_change", args=[made]))) == []


def test_undo__opened_as_a_page__leads_to_that_of_the_change(flag: Flag) -> None:
    where = reverse("admin:config_change_undo", args=[revision()])
    assert sign_in().get(where).url == reverse("admin:config_change_change", args=[revision()])


def test_links_to_changes__are_for_those_who_may_see_the_log(flag: Flag) -> None:
    client = sign_in("flags.view_flag", "flags.change_flag")
    shown = client.get(switch(client, flag).url).content.decode()
    assert "/undo/" in shown
    assert "Show the change" not in shown
    assert 'href="/admin/config/change' not in client.get(address("history", flag)).content.decode()


def test_undo__to_another_site__stays_here(flag: Flag) -> None:
    client = sign_in()
    switch(client, flag)
    done = undo(client, next="https://example.com/")
    assert done.url == LIST


def test_segment__is_undone__until_it_changes(db: None) -> None:
    segment = create_segment(key="s", description="Old", user_ids=["ada"], actor=ACTOR, now=NOON)
    client, page = sign_in(), reverse("admin:flags_segment_change", args=[segment.pk])
    client.post(page, filled(client, page, user_ids="ada\ngrace", description="New"))
    assert undo_addresses(client.get(page)) == [f"/admin/config/change/{revision()}/undo/"]
    update_segment(key="s", changes={"description": "Newer"}, actor=ACTOR, now=NOON)
    assert "The segment s has changed since" in said(undo(client, revision() - 1))
    update_segment(key="s", changes={"description": "New"}, actor=ACTOR, now=NOON)
    undo(client, revision() - 2)
    now = get_segment("s")
    assert (now.description, now.user_ids) == ("Old", ["ada"])


def test_segment__created_or_deleted__is_undone(db: None) -> None:
    client, add = sign_in(), reverse("admin:flags_segment_add")
    client.post(add, filled(client, add, key="s", user_ids="ada"))
    then = Segment.objects.get()
    client.post(reverse("admin:flags_segment_delete", args=[then.pk]), {})
    undo(client)
    now = Segment.objects.get()
    assert (now.pk, now.user_ids, now.created_at) == (then.pk, ["ada"], then.created_at)
    undo(client, revision() - 2)
    assert not Segment.objects.exists()
