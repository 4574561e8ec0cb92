"""Events in a real browser: the live tail, by keyboard."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.factories import EventFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def test_tail__by_keyboard__shows_what_arrives_and_keeps_focus_and_scroll_position(visit: Visit) -> None:
    page = visit.page
    EventFactory(name="before", timestamp=timezone.now())
    visit.open("/admin/events/event/")
    with page.expect_response("**/tail/**"):
        page.get_by_role("button", name="Follow live").press("Enter")
    tail = page.get_by_role("region", name="Arriving now")
    rows = tail.get_by_role("listitem")
    expect(tail.get_by_role("status")).to_have_text("Waiting for events.")
    expect(tail.get_by_role("button", name="Stop following")).to_be_focused()
    EventFactory(name="<b>first</b>", user_id="ann", timestamp=timezone.now(), properties={"plan": "pro"})
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("<b>first</b>")
    expect(rows).to_contain_text("plan pro")
    expect(tail.get_by_role("status")).to_have_text("1 event has arrived.")
    link = rows.get_by_role("link", name="ann")
    link.focus()
    top = page.evaluate("scrollY")
    for number in range(30):
        EventFactory(name=f"more-{number}", timestamp=timezone.now())
    expect(rows).to_have_count(31)
    expect(tail.get_by_role("link", name="ann")).to_be_focused()
    assert page.evaluate("scrollY") == top
    tail.get_by_role("button", name="Stop following").press("Enter")
    expect(tail).to_be_hidden()
    expect(page.get_by_role("button", name="Follow live")).to_be_focused()


def test_tail__of_one_event__in_another_environment__says_so(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/events/event/?event=see")
    with page.expect_response("**/tail/**"):
        page.get_by_role("button", name="Follow live").click()
    EventFactory(name="buy", timestamp=timezone.now())
    EventFactory(name="see", timestamp=timezone.now())
    tail = page.get_by_role("region", name="Arriving now")
    expect(tail.get_by_role("listitem")).to_have_count(1)
    other = page.context.new_page()
    other.goto(visit.root + "/admin/")
    other.locator(".hy-environment summary").click()
    other.get_by_role("button", name="Staging").click()
    expect(tail.get_by_role("status")).to_contain_text("You opened this page in another environment")
    other.close()


LINES = """
(cells) => cells.map((cell) => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  return text.getClientRects().length;
})
"""


def test_properties__on_a_phone__are_not_broken_within_a_word(visit: Visit) -> None:
    EventFactory(name="buy", timestamp=timezone.now(), properties={"currency": "EUR", "platform": "web, ios, android"})
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.open("/admin/events/event/named/?event=buy")
    names = visit.page.get_by_role("region", name="Properties").get_by_role("rowheader")
    expect(names).to_have_text(["currency", "platform"])
    assert names.evaluate_all(LINES) == [1, 1]
