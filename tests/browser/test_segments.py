"""Segments in a real browser: their conditions as rows, and lists too long to type into."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from flags.changes.segment_changes import create_segment, get_segment
from tests.browser.conftest import Visit
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

LONG = [f"user-{number}" for number in range(5_000)]


def save(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Save", exact=True).click()


def test_segment__built_with_the_editor__is_stored_as_it_looks(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/segment/add/")
    page.fill("#id_key", "testers")
    page.get_by_role("button", name="Add condition").click()
    page.get_by_label("Attribute").fill("plan")
    page.get_by_label("Operator").select_option("in")
    page.get_by_label("Values, one a line").fill("pro\nteam")
    page.get_by_role("button", name="Ignore upper and lower case").click()
    page.get_by_role("button", name="Add condition").click()
    page.get_by_label("condition 2", exact=True).get_by_label("Operator").select_option("exists")
    page.get_by_label("condition 2", exact=True).get_by_label("Attribute").fill("email")
    page.fill("#id_user_ids", "ada\ngrace\n")
    save(visit)
    expect(page.get_by_text("was added successfully")).to_be_visible()
    made = get_segment("testers")
    assert made.conditions == [
        {"attribute": "plan", "operator": "in", "value": ["pro", "team"], "ignoreCase": True},
        {"attribute": "email", "operator": "exists"},
    ]
    assert made.user_ids == ["ada", "grace"]


def test_segment__that_lists_users__leads_to_their_pages(visit: Visit) -> None:
    segment = create_segment(key="few", user_ids=["ada"], actor=ACTOR, now=NOON)
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    links = visit.page.locator("main a.hy-user")
    expect(links).to_have_text(["ada"])
    visit.page.fill("#id_user_ids", "ada\ngrace\n")
    expect(links).to_have_text(["ada", "grace"])
    assert str(links.last.get_attribute("href")).endswith("/user/?id=grace")


def test_condition__that_names_users__leads_to_their_pages(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/segment/add/")
    links = page.locator("main a.hy-user")
    page.get_by_role("button", name="Add condition").click()
    page.get_by_label("Attribute").fill("userId")
    page.get_by_label("Value", exact=True).fill("a/<b>")
    expect(links).to_have_text(["a/<b>"])
    expect(links).to_have_attribute("href", "/admin/experiments/experiment/user/?id=a%2F%3Cb%3E")
    page.get_by_label("Operator").select_option("in")
    page.get_by_label("Values, one a line").fill("ada\ngrace")
    expect(links).to_have_text(["ada", "grace"])
    page.get_by_label("Attribute").fill("plan")
    expect(links).to_have_count(0)
    expect(page.get_by_text("Pages of these users")).to_be_hidden()


def test_segment__refused__shows_the_error_at_its_field(visit: Visit) -> None:
    visit.open("/admin/flags/segment/add/")
    visit.page.fill("#id_key", "testers")
    visit.page.get_by_role("button", name="Add condition").click()
    save(visit)
    wrong = visit.page.get_by_label("condition 1", exact=True).locator('[data-path=".attribute"]')
    expect(wrong.get_by_role("alert")).to_have_text("Must not be empty.")


def test_segment__of_very_many__is_edited_by_what_to_add_and_what_to_remove(visit: Visit) -> None:
    segment = create_segment(key="large", user_ids=LONG, actor=ACTOR, now=NOON)
    page = visit.page
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    expect(page.locator("#id_user_ids")).to_be_hidden()
    expect(page.get_by_text("5,000 users are listed")).to_be_visible()
    page.get_by_label("Ids to add").fill("new\nuser-7")
    page.get_by_label("Ids to remove").fill("user-0\nnobody")
    page.locator("#id_description").focus()
    expect(page.get_by_text("5,000 users are listed · 1 to add · 1 to remove")).to_be_visible()
    save(visit)
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert get_segment("large").user_ids == [*LONG[1:], "new"]


def test_segment__of_very_many__can_still_be_edited_as_a_whole(visit: Visit) -> None:
    segment = create_segment(key="large", user_ids=LONG, actor=ACTOR, now=NOON)
    page = visit.page
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    page.get_by_label("Ids to add").fill("new")
    page.get_by_role("button", name="Edit the whole list").click()
    expect(page.locator("#id_user_ids")).to_have_value("\n".join([*LONG, "new"]))
    page.fill("#id_user_ids", "ada")
    save(visit)
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert get_segment("large").user_ids == ["ada"]
