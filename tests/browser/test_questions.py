"""The questions before a flag is switched, or taken from users, in production: in a real browser, by keyboard."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.access.environments import update_environment
from config.models import Change, Environment, ReasonSetting
from flags.changes.segment_changes import create_segment, get_segment
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]
BOTH = pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])


@BOTH
def test_switch__in_production__asks_for_a_reason_by_keyboard(visit: Visit) -> None:
    production, now = Environment.objects.get(key="production"), timezone.now()
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    flag_in_production()
    store(production, *(seen(f"user-{number}", now) for number in range(3)), now=now)
    page = visit.page
    visit.open("/admin/flags/flag/")
    switch = page.get_by_role("switch", name="new-checkout in Production")
    switch.press("Enter")
    expect(page.get_by_role("heading", name="Switch on new-checkout?")).to_be_visible()
    expect(page.get_by_text("3 (100 %) will see something else.")).to_be_visible()
    page.get_by_label("Reason").focus()
    page.keyboard.press("Enter")  # the browser refuses an empty reason
    expect(page.get_by_label("Reason")).to_be_focused()
    assert stored().enabled is False
    page.keyboard.type("Beta starts")
    page.keyboard.press("Enter")
    expect(page.get_by_text("new-checkout is now on in Production.")).to_be_visible()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert Change.objects.latest("revision").reason == "Beta starts"


@BOTH
def test_switches__of_all_environments__are_side_by_side(visit: Visit) -> None:
    flag_in_production()
    page = visit.page
    visit.open("/admin/flags/flag/")
    names = page.locator("#result_list thead .text").all_inner_texts()
    assert [name.strip() for name in names[1:]] == ["Flag", "Production", "Staging", "Updated"]
    switches = page.get_by_role("switch")
    switches.first.focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("switch", name="new-checkout in Staging")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("new-checkout is now on in Staging.")).to_be_visible()  # which is not protected
    assert (stored().enabled, stored(environment="staging").enabled) == (False, True)

    switches.first.press("Enter")
    expect(page.get_by_role("heading", name="Switch on new-checkout?")).to_be_visible()
    page.get_by_role("button", name="Switch on").press("Enter")
    expect(page.get_by_text("new-checkout is now on in Production.")).to_be_visible()
    assert stored().enabled is True
    page.get_by_role("button", name="Undo").press("Enter")
    expect(switches.first).to_have_attribute("aria-checked", "false")
    expect(switches.last).to_have_attribute("aria-checked", "true")


@BOTH
def test_segment__edited_so_that_a_user_loses_a_flag__asks_and_keeps_what_was_typed(visit: Visit) -> None:
    production, now = Environment.objects.get(key="production"), timezone.now()
    create_segment(key="testers", user_ids=["user-0", "user-1"], actor=ACTOR, now=NOON)
    flag_in_production(rules=[{"type": "segment", "segment": "testers"}], enabled=True)
    store(production, *(seen(f"user-{number}", now) for number in range(4)), now=now)
    page = visit.page
    visit.open("/admin/flags/segment/")
    page.get_by_role("link", name="testers").click()
    page.fill("#id_user_ids", "user-1\nnew")
    page.fill("#id_reason", "One left")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="Save this change of the segment testers?")).to_be_visible()
    expect(page.get_by_text("new-checkout goes off for 1 user.")).to_be_visible()
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
    expect(page.locator("#id_user_ids")).to_have_value("user-1\nnew")
    assert get_segment("testers").user_ids == ["user-0", "user-1"]

    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_label("Reason")).to_have_value("One left")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert get_segment("testers").user_ids == ["user-1", "new"]
    assert Change.objects.latest("revision").reason == "One left"


def test_question__at_any_width_and_in_the_dark__fits(visit: Visit) -> None:
    for number in range(25):
        flag_in_production(key=f"a-flag-with-a-long-name-{number}")
    page = visit.page
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    visit.open("/admin/flags/flag/")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("production:on")
    page.get_by_role("button", name="Run").press("Enter")
    expect(page.get_by_role("heading", name="Switch on 25 flags?")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
