"""Actions on flags in the admin without their form: filters, bulk switching, archiving and reverting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.access.environments import update_environment
from config.models import Change, Environment, ReasonSetting, Source
from flags.changes.flag_changes import archive_flag, create_flag, get_flag, update_flag
from flags.models import Flag
from tests.admin import answer, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON

LIST = "/admin/flags/flag/"
HALF = [{"type": "percentage", "percentage": 50}]


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="banner", tags=["shop", "q4"], owner="Ada", environment=production, actor=ACTOR, now=NOON)


def create(key: str, environment: Environment, **values: Any) -> Flag:
    return create_flag(key=key, environment=environment, actor=ACTOR, now=NOON, **values)


def archive(key: str, environment: Environment) -> Flag:
    return archive_flag(key=key, environment=environment, actor=ACTOR, now=NOON)


def address(page: str, flag: Flag, *more: object) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk, *more])


# --- the list --------------------------------------------------------------------------------------------------------


def test_list__filter__narrows_it(subtests: pytest.Subtests, flag: Flag, production: Environment) -> None:
    create("plain", production)
    create("stale", production, owner="Grace", expires_at=timezone.now() - timedelta(days=1))
    create("gone", production)
    archive("gone", production)
    client = sign_in()
    for query, expected in [
        ("", ["banner", "plain", "stale"]), ("shelf=stale", ["stale"]), ("shelf=archived", ["gone"]),
        ("shelf=nonsense", ["banner", "plain", "stale"]), ("tag=q4", ["banner"]), ("tag=q4&owner=Grace", []),
        ("owner=Grace", ["stale"]), ("tag=shop&q=ban", ["banner"]),
    ]:  # fmt: skip
        with subtests.test(query=query):
            response = client.get(f"{LIST}?{query}")
            assert [row.key for row in response.context["cl"].result_list] == expected


def test_list__shows_tags_and_what_became_of_a_flag(flag: Flag, production: Environment) -> None:
    create("stale", production, expires_at=timezone.now() - timedelta(days=1))
    create("fresh", production, expires_at=timezone.now() + timedelta(days=1))
    client = sign_in()
    shown = text_of(client.get(LIST))
    assert "banner shop q4" in shown
    assert "stale expired" in shown
    assert "fresh expired" not in shown
    archive("stale", production)
    assert "stale archived" in text_of(client.get(f"{LIST}?shelf=archived"))


def test_list__of_archived_flags__has_no_switches(flag: Flag, production: Environment) -> None:
    archive("banner", production)
    assert 'role="switch"' not in sign_in().get(f"{LIST}?shelf=archived").content.decode()


def test_bulk_switch__writes_one_change_for_each_that_was_not_so(flag: Flag, production: Environment) -> None:
    others = [create("one", production), create("two", production, enabled=True)]
    client = sign_in()
    before = revision()
    sent = {
        "action": "production:on",
        "_selected_action": [str(selected.pk) for selected in (flag, *others)],
        "index": "0",
    }
    response = answer(client, client.post(LIST, sent), typed_name="production")
    assert messages_of(response) == ["3 flags are now on in Production."]
    written = Change.objects.since(before)
    assert [change.key for change in written] == ["banner", "one"]
    assert {(change.actor, change.source, change.environment) for change in written} == {
        ("user ada", Source.ADMIN, "production")
    }
    assert get_flag("one", production).enabled is True


def test_bulk_switch__off__leaves_the_rest_of_the_flag_as_it_was(production: Environment) -> None:
    flag = create("one", production, enabled=True, rules=HALF)
    sent = {"action": "production:off", "_selected_action": [str(flag.pk)], "index": "0"}
    client = sign_in()
    assert messages_of(answer(client, client.post(LIST, sent))) == ["one is now off in Production."]
    assert get_flag("one", production).rules == HALF


def test_bulk_switch__from_a_page_of_another_environment__changes_nothing(flag: Flag) -> None:
    before = revision()
    sent = {"action": "staging:on", "_selected_action": [str(flag.pk)], "index": "0"}
    response = sign_in().post(LIST, sent)
    assert "have switched to Production since" in text_of(response)
    assert revision() == before


def test_bulk_switch__by_a_viewer__is_not_offered_and_does_nothing(flag: Flag) -> None:
    client = sign_in("flags.view_flag")
    assert "Switch on" not in client.get(LIST).content.decode()
    before = revision()
    client.post(LIST, {"action": "production:on", "_selected_action": [str(flag.pk)], "index": "0"})
    assert revision() == before


def test_bulk_switch__in_an_environment_with_a_percent_sign__is_offered_by_its_name(flag: Flag) -> None:
    Environment.objects.filter(key="production").update(name="100 % live")
    assert "Switch on in 100 % live" in sign_in().get(LIST).content.decode()


# --- the archive -----------------------------------------------------------------------------------------------------


def test_archive__confirmed__puts_the_flag_aside_with_its_reason(flag: Flag, production: Environment) -> None:
    client = sign_in()
    assert "off for everyone, in every environment" in text_of(client.get(address("archive", flag)))
    before = revision()
    response = client.post(address("archive", flag), {"opened_in": "production", "reason": "Launched"})
    assert messages_of(response) == ["banner is archived."]
    assert get_flag("banner", production).archived_at is not None
    change = only_change(after=before)
    assert (change.source, change.reason) == (Source.ADMIN, "Launched")
    page = text_of(client.get(address("change", flag)))
    assert "Archived on" in page
    assert "Restore" in page


def test_restore__confirmed__brings_it_back(flag: Flag, production: Environment) -> None:
    archive("banner", production)
    client = sign_in()
    assert "it will be off" in text_of(client.get(address("restore", flag)))
    assert messages_of(client.post(address("restore", flag), {"opened_in": "production"})) == ["banner is restored."]
    assert get_flag("banner", production).archived_at is None


def test_archive__of_a_flag_that_another_needs__says_which(flag: Flag, production: Environment) -> None:
    create("child", production, prerequisites=[{"flag": "banner"}])
    before = revision()
    response = sign_in().post(address("archive", flag), {"opened_in": "production"})
    assert "a prerequisite of child" in messages_of(response)[0]
    assert revision() == before


@pytest.mark.parametrize(("page", "done"), [("archive", "archived"), ("delete", "deleted")])
def test_question__about_what_would_be_refused__says_why_and_has_no_button(
    flag: Flag, production: Environment, staging: Environment, page: str, done: str
) -> None:
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    update_flag(key="banner", environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client = sign_in()
    shown = client.get(address(page, flag))
    assert f"banner cannot be {done} now The flag is on in staging; switch it off there first. Back" in text_of(shown)
    assert f"{page.capitalize()} the flag" not in text_of(shown)
    assert "off for everyone" not in text_of(shown)
    assert "Reason" not in text_of(shown)

    update_flag(key="banner", environment=staging, changes={"enabled": False}, actor=ACTOR, now=NOON)
    assert f"{page.capitalize()} the flag" in text_of(client.get(address(page, flag)))
    create("child", production, prerequisites=[{"flag": "banner"}])
    assert "a prerequisite of child" in text_of(client.get(address(page, flag)))


@pytest.mark.parametrize("page", ["archive", "restore"])
def test_archive__by_a_viewer__is_forbidden(flag: Flag, page: str) -> None:
    before = revision()
    assert sign_in("flags.view_flag").post(address(page, flag), {"opened_in": "production"}).status_code == 403
    assert revision() == before


def test_archive__from_a_page_of_another_environment__changes_nothing(flag: Flag, production: Environment) -> None:
    response = sign_in().post(address("archive", flag), {"opened_in": "staging"})
    assert "have switched to Production since" in text_of(response)
    assert get_flag("banner", production).archived_at is None


# --- going back ------------------------------------------------------------------------------------------------------


@pytest.fixture
def first(flag: Flag, production: Environment) -> int:
    """The revision that created the flag. Since then it has been switched on, with a rule and another owner."""
    created = revision()
    edits = {"enabled": True, "rules": HALF, "owner": "Grace"}
    update_flag(key=flag.key, environment=production, changes=edits, actor=ACTOR, now=NOON)
    return created


def test_history__offers_to_go_back_to_all_but_the_last(flag: Flag, first: int) -> None:
    page = sign_in().get(address("history", flag)).content.decode()
    assert f'href="{address("revert", flag, first)}"' in page
    assert page.count("Revert to this") == 1


def test_history__of_another_environment_alone__offers_no_way_back(
    flag: Flag, first: int, production: Environment, staging: Environment
) -> None:
    update_flag(key="banner", environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    elsewhere = revision()
    update_flag(key="banner", environment=production, changes={"owner": "Ada"}, actor=ACTOR, now=NOON)
    client = sign_in()
    page = client.get(address("history", flag)).content.decode()
    assert f'href="{address("revert", flag, first)}"' in page
    assert f'href="{address("revert", flag, elsewhere)}"' not in page
    assert "is not in the history of this flag in Production" in text_of(client.get(address("revert", flag, elsewhere)))


def test_revert__asked_for__tells_what_would_change(flag: Flag, first: int) -> None:
    shown = text_of(sign_in().get(address("revert", flag, first)))
    assert "Switch off Remove a rule: 50 % of everyone" in shown
    assert "Change the owner from “Grace” to “Ada”" in shown


def test_revert__confirmed__writes_it_once_with_its_reason(flag: Flag, first: int, production: Environment) -> None:
    client = sign_in()
    before = revision()
    response = answer(client, client.get(address("revert", flag, first)), reason="Too early")
    assert messages_of(response) == [f"banner is reverted to revision {first}."]
    now = get_flag("banner", production)
    assert (now.enabled, now.rules, now.owner) == (False, [], "Ada")
    change = only_change(after=before)
    assert (change.source, change.reason) == (Source.ADMIN, "Too early")


def test_revert__to_what_needs_something_that_is_gone__is_refused(production: Environment) -> None:
    create("parent", production)
    flag = create("child", production, prerequisites=[{"flag": "parent"}])
    created = revision()
    update_flag(key="child", environment=production, changes={"prerequisites": []}, actor=ACTOR, now=NOON)
    Flag.objects.get(key="parent").delete()
    before = revision()
    response = sign_in().post(address("revert", flag, created), {"opened_in": "production"})
    assert "No flag has the key parent" in messages_of(response)[0]
    assert revision() == before


def test_revert__to_a_revision_of_something_else__is_refused(flag: Flag, first: int) -> None:
    client = sign_in()
    assert "is not in the history of this flag" in text_of(client.get(address("revert", flag, 1)))
    before = revision()
    assert (
        "Must be a revision in the history of this flag"
        in messages_of(client.post(address("revert", flag, 1), {"opened_in": "production"}))[0]
    )
    assert revision() == before


def test_revert__to_a_revision_beyond_all_numbers__is_refused(flag: Flag) -> None:
    response = sign_in().post(address("revert", flag, 10**30), {"opened_in": "production"})
    assert "Must be a revision in the history of this flag" in messages_of(response)[0]


def test_revert__by_a_viewer__is_neither_offered_nor_done(flag: Flag, first: int) -> None:
    client = sign_in("flags.view_flag")
    assert "Revert to this" not in client.get(address("history", flag)).content.decode()
    assert client.post(address("revert", flag, first), {"opened_in": "production"}).status_code == 403


def test_revert__from_a_page_of_another_environment__changes_nothing(flag: Flag, first: int) -> None:
    before = revision()
    response = sign_in().post(address("revert", flag, first), {"opened_in": "staging"})
    assert "have switched to Production since" in text_of(response)
    assert revision() == before
