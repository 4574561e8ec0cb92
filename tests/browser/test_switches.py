"""Switches in a long list of flags, in a real browser: the focus and the scroll position stay."""

from __future__ import annotations

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Locator, Page, expect

from config.access.environments import update_environment
from config.models import Environment, ReasonSetting
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

KEY = "flag-24"


@pytest.fixture
def long_list(visit: Visit) -> Page:
    for number in range(40):
        flag_in_production(key=f"flag-{number:02}")
    visit.open("/admin/flags/flag/")
    return visit.page


def switch_in(page: Page, environment: str) -> Locator:
    switch = page.get_by_role("switch", name=f"{KEY} in {environment}")
    switch.scroll_into_view_if_needed()
    return switch


def place_of(switch: Locator) -> float:
    """Return where the row begins in the window. The words below a switch that is on move it a little in its cell."""
    box = switch.locator("xpath=ancestor::tr").bounding_box()
    assert box
    return box["y"]


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_switch__far_down__keeps_its_place_and_the_focus(long_list: Page, by: str) -> None:
    switch = switch_in(long_list, "Staging")
    place = place_of(switch)
    for state in ("on", "off"):
        switch.click() if by == "mouse" else switch.press("Enter")
        expect(long_list.get_by_text(f"{KEY} is now {state} in Staging.")).to_be_in_viewport(ratio=1)
        expect(switch).to_be_focused()
        assert place_of(switch) == pytest.approx(place, abs=1)
        assert stored(KEY, "staging").enabled is (state == "on")
    long_list.get_by_role("button", name="Undo").press("Enter")
    expect(long_list.get_by_text(f"The change of {KEY} is undone.")).to_be_visible()
    expect(switch).to_be_focused()
    expect(switch).to_have_attribute("aria-checked", "true")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_rows__below_the_bar_of_actions__can_be_reached(long_list: Page, width: int, height: int) -> None:
    long_list.set_viewport_size({"width": width, "height": height})
    long_list.get_by_label("Select flag-00").check()
    bar = long_list.get_by_label("Select action to run")
    expect(bar).to_be_visible()
    boxes = long_list.locator("#result_list .action-select")
    for number in range(boxes.count() - 3, boxes.count()):
        boxes.nth(number).press("Space")
        expect(boxes.nth(number)).to_be_checked()
    last, above = long_list.locator("#result_list .data-row").last.bounding_box(), bar.bounding_box()
    assert last
    assert above
    assert last["y"] + last["height"] <= above["y"]


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_switch__with_a_question__keeps_its_place_and_the_focus(long_list: Page, by: str) -> None:
    production = Environment.objects.get(key="production")
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    switch, question = switch_in(long_list, "Production"), long_list.get_by_role("dialog")
    place = place_of(switch)
    for answer, message in (("Cancel", "You cancelled"), ("Switch on", f"{KEY} is now on in Production.")):
        switch.click() if by == "mouse" else switch.press("Enter")
        expect(question).to_contain_text(f"Switch on {KEY}?")
        if answer != "Cancel":
            question.get_by_label("Reason").fill("Beta starts")
        button = question.get_by_role("button", name=answer)
        button.click() if by == "mouse" else button.press("Enter")
        expect(long_list.get_by_text(message)).to_be_in_viewport(ratio=1)
        expect(question).to_be_hidden()
        expect(switch).to_be_focused()
        assert place_of(switch) == pytest.approx(place, abs=1)
    expect(switch).to_have_attribute("aria-checked", "true")
    assert stored(KEY).enabled is True


def test_question__left_by_escape__changes_nothing(long_list: Page) -> None:
    switch = switch_in(long_list, "Production")
    switch.press("Enter")
    expect(long_list.get_by_role("heading", name=f"Switch on {KEY}?")).to_be_focused()
    assert complaints(long_list) == []
    long_list.keyboard.press("Escape")
    expect(long_list.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
    expect(switch).to_be_focused()
    assert stored(KEY).enabled is False


def test_switch__in_a_row_that_the_filter_drops__leaves_the_focus_to_the_next(visit: Visit, long_list: Page) -> None:
    visit.open("/admin/flags/flag/?enabled=false&q=flag-3")
    for key, following in (("flag-38", "flag-39"), ("flag-39", "flag-37")):
        long_list.get_by_role("switch", name=f"{key} in Production").press("Enter")
        long_list.get_by_role("button", name="Switch on").press("Enter")
        expect(long_list.get_by_role("switch", name=f"{key} in Production")).to_have_count(0)
        expect(long_list.get_by_role("switch", name=f"{following} in Production")).to_be_focused()


def test_switch__in_the_only_row__leaves_an_empty_list(visit: Visit, long_list: Page) -> None:
    visit.open(f"/admin/flags/flag/?enabled=false&q={KEY}")
    switch_in(long_list, "Production").press("Enter")
    long_list.get_by_role("button", name="Switch on").press("Enter")
    expect(long_list.get_by_text("No flags found.")).to_be_visible()
    expect(long_list.get_by_text(f"{KEY} is now on in Production.")).to_be_visible()
    expect(long_list.get_by_role("main")).to_be_focused()


def test_switch__session_ended__leads_to_the_page_to_sign_in(long_list: Page) -> None:
    switch = switch_in(long_list, "Staging")
    Session.objects.all().delete()
    switch.click()
    expect(long_list.get_by_text("Your session has ended, and nothing was saved.")).to_be_visible()
    assert stored(KEY, "staging").enabled is False
