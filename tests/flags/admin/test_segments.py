"""Segments in the admin: writes, refusals in the words of the API, and speed with 100,000 ids."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config.models import Environment, Source
from flags.changes.flag_changes import create_flag
from flags.changes.segment_changes import change_members, create_segment, get_segment, update_segment
from flags.models import Segment
from tests.admin import errors_of, filled, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON

LIST = "/admin/flags/segment/"
ADD = "/admin/flags/segment/add/"
LOG = "/admin/config/change/"
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
MANY = [f"user-{number:06}" for number in range(100_000)]


@pytest.fixture
def segment(db: None) -> Segment:
    return create_segment(key="testers", conditions=[PRO], user_ids=["ada", "grace"], actor=ACTOR, now=NOON)


def address(page: str, segment: Segment) -> str:
    return reverse(f"admin:flags_segment_{page}", args=[segment.pk])


# --- the list --------------------------------------------------------------------------------------------------------


def test_list__any_number_of_segments__takes_the_same_queries(db: None, django_assert_max_num_queries: Any) -> None:
    for number in range(12):
        create_segment(key=f"s{number}", user_ids=["u"], actor=ACTOR, now=NOON)
    client = sign_in()
    client.get(LIST)  # the first one of a process loads its snapshot
    with django_assert_max_num_queries(5):  # session, user, environments, count, segments
        response = client.get(LIST)
    assert len(response.context["cl"].result_list) == 12


def test_list__says_who_is_in_a_segment(segment: Segment) -> None:
    create_segment(key="nobody", actor=ACTOR, now=NOON)
    shown = text_of(sign_in().get(LIST))
    assert "testers plan equals pro; 2 listed users" in shown
    assert "nobody no users yet" in shown


def test_list__reads_no_members_from_the_database(segment: Segment) -> None:
    client = sign_in()
    client.get(LIST)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get(LIST)
    assert not [query["sql"] for query in queries if "user_ids" in query["sql"]]


# --- the form --------------------------------------------------------------------------------------------------------


def test_add__what_was_typed__is_stored_and_logged_with_its_reason(db: None) -> None:
    client = sign_in()
    before = revision()
    typed = {"key": "testers", "conditions": json.dumps([PRO]), "user_ids": "ada\r\n\r\ngrace hopper\r\n"}
    assert client.post(ADD, filled(client, ADD, **typed, reason="Beta starts")).status_code == 302
    made = get_segment("testers")
    assert (made.conditions, made.user_ids) == ([PRO], ["ada", "grace hopper"])
    change = only_change(after=before)
    assert (change.action, change.source, change.reason) == ("created", Source.ADMIN, "Beta starts")


def test_change__saved_as_it_was__writes_nothing(segment: Segment) -> None:
    client = sign_in()
    before = revision()
    assert client.post(address("change", segment), filled(client, address("change", segment))).status_code == 302
    assert revision() == before


def test_change__of_conditions_and_ids__is_one_change(segment: Segment) -> None:
    client = sign_in()
    before = revision()
    sent = filled(client, address("change", segment), conditions="[]", user_ids="lin")
    assert client.post(address("change", segment), sent).status_code == 302
    changed = get_segment("testers")
    assert (changed.conditions, changed.user_ids) == ([], ["lin"])
    assert only_change(after=before).source == Source.ADMIN


def test_change__of_a_segment_that_changed_meanwhile__overwrites_nothing(segment: Segment) -> None:
    client = sign_in()
    sent = filled(client, address("change", segment), description="Mine")
    update_segment(key="testers", changes={"description": "Theirs"}, actor=ACTOR, now=NOON)
    response = client.post(address("change", segment), sent)
    assert "Nothing was saved" in errors_of(response)["__all__"][0]
    assert get_segment("testers").description == "Theirs"


def test_add__what_the_api_refuses__is_refused_at_the_same_field_in_the_same_words(
    subtests: pytest.Subtests, segment: Segment, api: Any
) -> None:
    client = sign_in()
    before = revision()
    for changes, field in [
        ({"key": "a b"}, "key"),
        ({"key": "testers"}, "key"),
        ({"description": "d" * 2001}, "description"),
        ({"conditions": '[{"attribute": "plan"}]'}, "conditions"),
        ({"conditions": '[{"operator": "inSegment", "value": "nobody"}]'}, "conditions"),
        ({"conditions": '[{"operator": "inSegment", "value": "fresh"}]'}, "conditions"),
        ({"conditions": "{}"}, "conditions"),
        ({"user_ids": "ada\nada"}, "user_ids"),
        ({"user_ids": "u" * 201}, "user_ids"),
        ({"user_ids": "nul \0"}, "user_ids"),
    ]:
        with subtests.test(changes=changes, field=field):
            response = client.post(ADD, filled(client, ADD, **{"key": "fresh", **changes}))
            assert response.status_code == 200
            said = errors_of(response)[field]
            words = refusal_of_api(api, {"key": "fresh", **changes})
            assert any(word in error for error in said for word in words), (said, words)
            assert revision() == before


def refusal_of_api(api: Any, changes: dict[str, str]) -> list[str]:
    body: dict[str, Any] = dict(changes)
    if "conditions" in body:
        body["conditions"] = json.loads(body["conditions"])
    if "user_ids" in body:
        body["userIds"] = body.pop("user_ids").split("\n")
    error = api.post("/v1/segments", body).json()["error"]
    return [detail["message"] for detail in error.get("details", [])] or [error["message"]]


def test_add__with_very_many_mistakes__names_the_first_of_them(db: None) -> None:
    client = sign_in()
    response = client.post(ADD, filled(client, ADD, key="fresh", user_ids="\n".join(["ada"] * 501)))
    assert len(errors_of(response)["user_ids"]) == 20
    assert errors_of(response)["__all__"] == ["And 480 more invalid fields."]


def test_form__tells_what_asks_for_the_segment(segment: Segment, production: Environment) -> None:
    rules = [{"type": "segment", "segment": "testers"}]
    create_flag(key="banner", rules=rules, environment=production, actor=ACTOR, now=NOON)
    named_otherwise = [{"type": "users", "userIds": ["testers"]}]
    create_flag(key="other", rules=named_otherwise, environment=production, actor=ACTOR, now=NOON)
    asks = [{"operator": "inSegment", "value": "testers"}]
    create_segment(key="elders", conditions=asks, actor=ACTOR, now=NOON)
    shown = text_of(sign_in().get(address("change", segment)))
    assert "Used by banner Production banner Staging elders segment Key" in shown


def test_form__of_an_unused_segment__says_so(segment: Segment) -> None:
    assert "No rule or segment uses it yet." in text_of(sign_in().get(address("change", segment)))


def test_delete__of_a_segment_in_use__says_by_whom(segment: Segment, production: Environment) -> None:
    rules = [{"type": "segment", "segment": "testers"}]
    create_flag(key="banner", rules=rules, environment=production, actor=ACTOR, now=NOON)
    before = revision()
    response = sign_in().post(address("delete", segment))
    assert "the flag banner (production, staging)" in messages_of(response)[0]
    assert revision() == before


def test_delete__confirmed__goes_through_the_domain(segment: Segment) -> None:
    client = sign_in()
    before = revision()
    assert client.post(address("delete", segment), {"reason": "Over"}).url == LIST
    assert not Segment.objects.exists()
    change = only_change(after=before)
    assert (change.action, change.source, change.reason) == ("deleted", Source.ADMIN, "Over")


def test_viewer__reads_who_is_in_it_and_writes_nothing(segment: Segment) -> None:
    client = sign_in("flags.view_segment")
    page = client.get(address("change", segment))
    assert "plan equals pro; 2 listed users" in text_of(page)
    assert 'name="user_ids"' not in page.content.decode()
    before = revision()
    assert client.post(address("change", segment), {"user_ids": "x"}).status_code == 403
    assert client.post(address("delete", segment)).status_code == 403
    assert revision() == before


# --- a hundred thousand ids ------------------------------------------------------------------------------------------


@pytest.fixture
def large(db: None) -> Segment:
    create_segment(key="large", user_ids=MANY, actor=ACTOR, now=NOON)
    changes = {"user_ids": [*MANY[7:], "new"]}
    return update_segment(key="large", changes=changes, actor=ACTOR, now=NOON)


def test_history__of_long_lists__tells_what_came_and_went(large: Segment) -> None:
    shown = text_of(sign_in().get(address("history", large)))
    assert "Added new to the user IDs Removed 7 (user-000000, user-000001, user-000002" in shown
    assert "Added 100,000 (user-000000, user-000001, user-000002" in shown


def test_change_log__of_long_lists__is_reported_without_reading_them(large: Segment) -> None:
    response = sign_in().get(LOG)
    newest = response.context["cl"].result_list[0]
    assert newest.get_deferred_fields() == {"before", "after"}
    assert (newest.brief_before, newest.brief_after) == (None, None)
    assert "segment large Changed the number of user IDs from 100,000 to 99,994 all" in text_of(response)
    assert len(response.content) < 200_000


def test_change_log__of_members__says_who_came_and_who_went(db: None) -> None:
    create_segment(key="beta", user_ids=["ada", "bob"], actor=ACTOR, now=NOON)
    update_segment(key="beta", changes={"user_ids": ["bob", "cy"]}, actor=ACTOR, now=NOON)
    change_members(key="beta", add=["dot"], remove=["bob"], actor=ACTOR, now=NOON)
    shown = text_of(sign_in().get(LOG))
    assert "segment beta Added cy to the user IDs; removed ada from the user IDs all" in shown
    assert "segment beta Added dot to the user IDs; removed bob from the user IDs all" in shown


def test_change_log__of_a_long_list_that_stays_as_long__names_the_segment(large: Segment) -> None:
    update_segment(key="large", changes={"description": "Many"}, actor=ACTOR, now=NOON)
    assert "segment large Changed the segment all" in text_of(sign_in().get(LOG))


def test_change_page__of_long_lists__tells_what_came_and_went(large: Segment) -> None:
    shown = text_of(sign_in().get(reverse("admin:config_change_change", args=[revision()])))
    assert "Added new to the user IDs" in shown


def test_change__of_one_id_among_many__is_written(large: Segment) -> None:
    client = sign_in()
    before = revision()
    sent = filled(client, address("change", large), user_ids="\r\n".join(MANY))
    assert client.post(address("change", large), sent).status_code == 302
    assert len(get_segment("large").user_ids) == len(MANY)
    assert revision() == before + 1


def test_add__of_more_than_may_be_listed__is_refused(db: None) -> None:
    client = sign_in()
    sent = filled(client, ADD, key="fresh", user_ids="\n".join([*MANY, "one-more"]))
    assert errors_of(client.post(ADD, sent))["user_ids"] == ["Must have at most 100,000 user ids."]


# --- going back ------------------------------------------------------------------------------------------------------


@pytest.fixture
def first(segment: Segment) -> int:
    """The revision that created the segment. Since then it has other users and a description."""
    created = revision()
    change_members(key="testers", add=["bob"], remove=["ada"], actor=ACTOR, now=NOON)
    update_segment(key="testers", changes={"description": "People who test"}, actor=ACTOR, now=NOON)
    return created


def test_history__of_a_segment__offers_to_go_back_to_all_but_the_last(segment: Segment, first: int) -> None:
    page = sign_in().get(address("history", segment)).content.decode()
    assert f'href="{reverse("admin:flags_segment_revert", args=[segment.pk, first])}"' in page
    assert page.count("Revert to this") == 2


def test_revert__of_a_segment__says_what_would_change_and_does_it(segment: Segment, first: int) -> None:
    client, page = sign_in(), reverse("admin:flags_segment_revert", args=[segment.pk, first])
    shown = text_of(client.get(page))
    assert "Remove the description: “People who test”" in shown
    assert "Add ada to the user IDs Remove bob from the user IDs" in shown
    before = revision()
    assert messages_of(client.post(page, {"reason": "Too early"})) == [f"testers is reverted to revision {first}."]
    assert sorted(get_segment("testers").user_ids) == ["ada", "grace"]
    change = only_change(after=before)
    assert (change.source, change.reason) == (Source.ADMIN, "Too early")
    assert "Nothing would change: the segment has these values now." in text_of(client.get(page))


def test_revert__of_a_segment_to_a_revision_of_something_else__is_refused(segment: Segment, first: int) -> None:
    client, page = sign_in(), reverse("admin:flags_segment_revert", args=[segment.pk, 1])
    assert "Revision 1 is not in the history of this segment." in text_of(client.get(page))
    before = revision()
    assert "Must be a revision in the history of this segment" in messages_of(client.post(page))[0]
    assert revision() == before


def test_revert__of_a_segment_by_a_viewer__is_neither_offered_nor_done(segment: Segment, first: int) -> None:
    client = sign_in("flags.view_segment")
    assert "Revert to this" not in client.get(address("history", segment)).content.decode()
    assert client.post(reverse("admin:flags_segment_revert", args=[segment.pk, first])).status_code == 403


# --- ids that a plain line cannot show -------------------------------------------------------------------------------

TORN = ["new\nline", "b", " padded ", "  ", "a\r\nb\r", '"new\\nline"', '"quoted"']


@pytest.fixture
def torn(db: None) -> Segment:
    return create_segment(key="torn", user_ids=TORN, actor=ACTOR, now=NOON)


def as_sent(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as a browser sends them, with its line breaks."""
    return {
        name: value.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n") if isinstance(value, str) else value
        for name, value in values.items()
    }


def test_change__of_the_description__keeps_ids_with_line_breaks(torn: Segment) -> None:
    client, before = sign_in(), revision()
    sent = as_sent(filled(client, address("change", torn), description="Other"))
    assert client.post(address("change", torn), sent).status_code == 302
    changed = get_segment("torn")
    assert (changed.description, changed.user_ids) == ("Other", TORN)
    change = only_change(after=before)
    assert change.before is not None
    assert change.after is not None
    assert {name for name in change.after if change.after[name] != change.before[name]} == {"description"}


def test_change__of_the_ids__keeps_those_with_line_breaks_and_takes_further_ones(torn: Segment) -> None:
    client, page = sign_in(), address("change", torn)
    lines = filled(client, page)["user_ids"].split("\n")
    sent = as_sent(filled(client, page, user_ids="\n".join([*lines[:-1], "c", '"one\\nmore"', '"more"'])))
    assert client.post(page, sent).status_code == 302
    assert get_segment("torn").user_ids == [*TORN[:-1], "c", "one\nmore", '"more"']


def test_change__refused__shows_ids_with_line_breaks_again_and_saves_them_then(torn: Segment) -> None:
    client, page = sign_in(), address("change", torn)
    refused = client.post(page, as_sent(filled(client, page, description="d" * 2001)))
    assert "description" in errors_of(refused)
    form = refused.context["adminform"].form
    again = {name: form[name].value() or "" for name in form.fields} | {"description": "Short"}
    assert client.post(page, as_sent(again)).status_code == 302
    assert (get_segment("torn").description, get_segment("torn").user_ids) == ("Short", TORN)


def test_change__of_a_segment_that_changed_meanwhile__compares_whole_ids(torn: Segment) -> None:
    client, page = sign_in(), address("change", torn)
    sent = as_sent(filled(client, page, description="Mine"))
    update_segment(key="torn", changes={"user_ids": [*TORN, "c"]}, actor=ACTOR, now=NOON)
    shown = client.post(page, sent)
    assert "Nothing was saved" in errors_of(shown)["__all__"][0]
    assert get_segment("torn").user_ids == [*TORN, "c"]


def test_add__of_a_quoted_id_that_the_api_refuses__is_refused(subtests: pytest.Subtests, db: None) -> None:
    client = sign_in()
    for line in ['"a\\u0000\\nb"', '"a\\ud800\\nb"', '"\\n"\n"\\n"', '""']:
        with subtests.test(line=line):
            response = client.post(ADD, filled(client, ADD, key="fresh", user_ids=line))
            assert "user_ids" in errors_of(response)
