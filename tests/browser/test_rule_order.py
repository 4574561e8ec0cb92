"""Rules in a real browser: moved by drag and by keyboard, duplicated, removed, and commented."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from config.change_log.writing import writing
from config.models import Environment
from flags.changes.experiment_rules import put_rule
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import experiment_rule

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

RULES = [{"type": "percentage", "percentage": share} for share in (1, 2, 3, 4)]


@pytest.fixture
def page(visit: Visit) -> Page:
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=RULES).pk}/change/")
    return visit.page


def rule(page: Page, number: int) -> Locator:
    return page.get_by_label(f"rule {number}", exact=True)


def shares(page: Page) -> list[str]:
    return [box.input_value() for box in page.get_by_label("Percentage", exact=True).all()]


def saved(page: Page) -> list[int]:
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    return [stored_rule["percentage"] for stored_rule in stored().rules]


def test_rule__moved_by_keyboard__keeps_the_focus_and_says_where_it_is(page: Page) -> None:
    said = page.locator("[data-editor-of=rules] > [role=status]")
    page.get_by_role("button", name="Move rule 4 up").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Move rule 3 up")).to_be_focused()
    expect(said).to_have_text("The rule is now rule 3 of 4.")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(said).to_have_text("The rule is now rule 1 of 4.")
    expect(page.get_by_role("button", name="Move rule 1 down")).to_be_focused()  # it cannot move further up
    assert shares(page) == ["4", "1", "2", "3"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Move rule 2 down")).to_be_focused()
    assert saved(page) == [1, 4, 2, 3]


def drag(page: Page, number: int, target: int, *, to_end: bool = False) -> None:
    """Drag a rule by its handle to the upper or the lower part of another one, and hold it there."""
    rule(page, number).locator(".hy-grip").hover()
    page.mouse.down()
    box = rule(page, target).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + (box["height"] - 5 if to_end else 5), steps=3)


def test_rule__dragged__lands_where_the_line_is(visit: Visit, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 2400})
    drag(page, 1, 2)
    expect(rule(page, 2)).to_have_class("hy-editor-card hy-drop-before")
    page.mouse.up()
    assert shares(page) == ["1", "2", "3", "4"]  # it is before rule 2 already
    drag(page, 1, 2, to_end=True)
    expect(rule(page, 3)).to_have_class("hy-editor-card hy-drop-before")
    page.mouse.up()
    expect(page.locator(".hy-drop-before")).to_have_count(0)
    assert shares(page) == ["2", "1", "3", "4"]
    drag(page, 4, 1)
    page.mouse.up()
    assert shares(page) == ["4", "2", "1", "3"]
    drag(page, 1, 4, to_end=True)
    expect(rule(page, 4)).to_have_class("hy-editor-card hy-drop-after")
    page.mouse.up()
    assert saved(page) == [2, 1, 3, 4]


END_IS_VISIBLE = """() => {
  const [last] = [...document.querySelectorAll("[data-editor-of=rules] .hy-editor-card")].slice(-1);
  const bar = document.getElementById("submit-row");
  return last.getBoundingClientRect().bottom <= bar.getBoundingClientRect().top;
}"""


def test_rule__dragged_to_an_edge__scrolls_the_page_there(visit: Visit) -> None:
    page = visit.page
    many = [{"type": "percentage", "percentage": share} for share in range(1, 13)]
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=many).pk}/change/")
    page.evaluate("scrollTo(0, 0)")
    last = rule(page, 12)
    rule(page, 1).locator(".hy-grip").hover()
    page.mouse.down()
    page.mouse.move(400, page.locator("#submit-row").evaluate("bar => bar.getBoundingClientRect().top") - 10, steps=3)
    expect(last).to_have_class("hy-editor-card hy-drop-after")
    page.wait_for_function(END_IS_VISIBLE)
    at_the_end = page.evaluate("scrollY")
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == at_the_end  # no further than the list goes
    page.mouse.up()
    assert shares(page) == [*map(str, range(2, 13)), "1"]
    last.locator(".hy-grip").hover()
    page.mouse.down()
    page.mouse.move(400, 10, steps=3)
    expect(rule(page, 1)).to_have_class("hy-editor-card hy-drop-before")
    page.mouse.up()
    assert shares(page) == [*map(str, range(1, 13))]


def test_rule__dragged_by_touch__scrolls_and_lands(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    many = [{"type": "percentage", "percentage": share} for share in range(1, 7)]
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=many).pk}/change/")
    rule(page, 1).locator(".hy-grip").scroll_into_view_if_needed()
    box = rule(page, 1).locator(".hy-grip").bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    for kind, y in (("touchStart", box["y"] + 5), ("touchMove", box["y"] + 40), ("touchMove", 835.0)):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": box["x"] + 5, "y": y}]})
    expect(rule(page, 6)).to_have_class("hy-editor-card hy-drop-after")
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert shares(page) == ["2", "3", "4", "5", "6", "1"]


def test_rule__drag_cancelled_by_escape__leaves_the_list_as_it_was(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 2400})
    drag(page, 1, 3)
    expect(page.locator(".hy-drop-before")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".hy-drop-before")).to_have_count(0)
    drag_on = rule(page, 4).bounding_box()
    assert drag_on is not None
    page.mouse.move(drag_on["x"] + 30, drag_on["y"] + 5, steps=2)
    expect(page.locator(".hy-drop-before")).to_have_count(0)
    page.mouse.up()
    assert shares(page) == ["1", "2", "3", "4"]
    drag(page, 1, 3)
    page.mouse.up()
    assert shares(page) == ["2", "1", "3", "4"]


def test_rule__dragged_before_that_of_an_experiment__stays_behind_it(visit: Visit) -> None:
    flag_in_production(rules=RULES[:2])
    with writing(actor=ACTOR, now=NOON) as log:
        production = Environment.objects.get(key="production")
        put_rule(log, key="new-checkout", environment=production, rule=experiment_rule())
    visit.page.set_viewport_size({"width": 1440, "height": 2400})
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    expect(rule(visit.page, 1).locator(".hy-grip")).to_have_count(0)
    drag(visit.page, 3, 1)
    visit.page.mouse.up()
    assert shares(visit.page) == ["2", "1"]
    visit.page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().rules == [experiment_rule(), RULES[1], RULES[0]]


def test_rule__duplicated_and_removed__by_keyboard(page: Page) -> None:
    said = page.locator("[data-editor-of=rules] > [role=status]")
    page.get_by_role("button", name="Duplicate rule 2").press("Enter")
    expect(said).to_have_text("Rule 3 is a copy of rule 2.")
    expect(rule(page, 3).get_by_label("Who")).to_be_focused()
    rule(page, 3).get_by_label("Percentage", exact=True).fill("20")
    assert shares(page) == ["1", "2", "20", "3", "4"]  # the copy is one of its own
    page.get_by_role("button", name="Remove rule 5").press("Enter")
    expect(said).to_have_text("Rule 5 is removed. 4 left.")
    expect(page.get_by_role("button", name="Remove rule 4")).to_be_focused()
    page.get_by_role("button", name="Add rule").first.press("Enter")
    expect(rule(page, 5).get_by_label("Who")).to_be_focused()
    assert saved(page) == [1, 2, 20, 3, 10]


def test_rule__with_a_comment__shows_it(visit: Visit, page: Page) -> None:
    rule(page, 2).get_by_text("More").press("Enter")
    rule(page, 2).get_by_label("Comment").fill("Until the bank has answered.\nAsk Ada.")
    saved(page)
    assert stored().rules[1] == {**RULES[1], "comment": "Until the bank has answered.\nAsk Ada."}
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    expect(rule(page, 2).get_by_text("Until the bank has answered.").first).to_be_visible()
    rule(page, 2).get_by_text("More").press("Enter")
    rule(page, 2).get_by_label("Comment").fill("")
    saved(page)
    assert stored().rules == RULES
