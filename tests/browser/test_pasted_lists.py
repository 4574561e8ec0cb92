"""Lists that were pasted with commas, in a real browser: a notice says that they are one value, and splits them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from flags.changes.segment_changes import create_segment, get_segment
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

COUNTRIES = {"type": "attribute", "conditions": [{"attribute": "country", "operator": "in", "value": ["DE, FR"]}]}
LONG = [f"user-{number}" for number in range(3_000)]


def notice(page: Page) -> Locator:
    return page.locator(".hy-joined:not(:empty)")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()


def test_values_of_a_condition__with_a_comma__are_split_by_keyboard(visit: Visit) -> None:
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=[COUNTRIES]).pk}/change/")
    expect(notice(page).get_by_text("“DE, FR” counts as one value.")).to_be_visible()  # since it is stored
    expect(notice(page)).to_have_attribute("role", "status")
    assert complaints(page) == []
    area = page.get_by_label("Values, one a line")
    area.fill("DE, FR\nUS;DE\nCH")
    expect(notice(page).locator("span")).to_have_text("“DE, FR” and 1 other line count as one value each.")
    area.press("Tab")
    expect(page.get_by_role("button", name="Split into 4 values")).to_be_focused()
    page.keyboard.press("Enter")
    expect(area).to_have_value("DE\nFR\nUS\nCH")  # each once, as the server requires
    expect(area).to_be_focused()
    expect(notice(page)).to_have_count(0)
    save(page)
    assert stored().rules[0]["conditions"][0]["value"] == ["DE", "FR", "US", "CH"]


def test_values_of_a_condition__that_have_commas__are_saved_all_the_same(visit: Visit) -> None:
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=[COUNTRIES]).pk}/change/")
    page.get_by_label("Values, one a line").fill("Smith, John")
    save(page)
    assert stored().rules[0]["conditions"][0]["value"] == ["Smith, John"]
    expect(page.get_by_text("country is one of “Smith, John”").first).to_be_visible()


def test_users_of_a_rule__pasted_with_separators__are_split(visit: Visit) -> None:
    page = visit.page
    rule = {"type": "users", "userIds": ["dan"]}
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=[rule]).pk}/change/")
    page.get_by_label("User ids, one a line").fill("ada, bob; carl,")
    expect(notice(page).get_by_text("“ada, bob; carl,” counts as one value.")).to_be_visible()
    page.get_by_role("button", name="Split into 3 values").click()
    save(page)
    assert stored().rules == [{**rule, "userIds": ["ada", "bob", "carl"]}]


def test_value__with_a_comma_at_its_end__can_lose_it(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/segment/add/")
    page.fill("#id_user_ids", ",")
    expect(notice(page)).to_have_text("“,” counts as one value.")
    page.fill("#id_user_ids", "ada,")
    page.get_by_role("button", name="Change it to “ada”").click()
    expect(page.locator("#id_user_ids")).to_have_value("ada")


def test_users_of_a_segment__pasted_with_separators__are_split(visit: Visit) -> None:
    page = visit.page
    segment = create_segment(key="few", user_ids=["ada, bob"], actor=ACTOR, now=NOON)
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    expect(notice(page).get_by_text("“ada, bob” counts as one value.")).to_be_visible()
    page.fill("#id_user_ids", "ada, bob; carl")
    page.get_by_role("button", name="Split into 3 values").click()
    expect(page.locator("main a.hy-user")).to_have_text(["ada", "bob", "carl"])
    save(page)
    assert get_segment("few").user_ids == ["ada", "bob", "carl"]


def test_users_of_a_very_long_segment__are_split_in_the_list_and_in_what_is_added(visit: Visit) -> None:
    page = visit.page
    segment = create_segment(key="large", user_ids=[*LONG, "ada, bob"], actor=ACTOR, now=NOON)
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    page.get_by_label("Ids to add").fill("carl; dan")
    expect(notice(page)).to_have_count(2)
    page.get_by_role("button", name="Split into 2 values").last.click()
    expect(page.get_by_text("3,003 users are listed · 2 to add")).to_be_visible()
    page.get_by_role("button", name="Split into 2 values").click()
    expect(page.get_by_text("3,004 users are listed · 2 to add")).to_be_visible()
    save(page)
    assert get_segment("large").user_ids == [*LONG, "ada", "bob", "carl", "dan"]
