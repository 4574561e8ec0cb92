"""Lists that follow changes in a real browser, and keep what the reader has done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.access.environments import create_environment
from config.models import Environment
from config.timestamps import format_timestamp
from experiments.metrics.changes import create_metric, delete_metric, update_metric
from flags.changes.flag_changes import update_flag
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production
from tests.conftest import ACTOR

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

KIND = {"type": "count", "event": "buy", "actor": ACTOR}


def test_list__after_changes__has_them_and_keeps_focus_and_scroll_position(visit: Visit) -> None:
    page = visit.page
    for number in range(30):
        create_metric(key=f"m{number:02}", **KIND, now=timezone.now())
    visit.open("/admin/experiments/metric/")
    focused = page.get_by_role("link", name="m20")
    focused.focus()
    focused.scroll_into_view_if_needed()
    place = focused.bounding_box()
    update_metric(key="m22", changes={"description": "New words"}, actor=ACTOR, now=timezone.now())
    update_metric(key="m20", changes={"role": "guardrail"}, actor=ACTOR, now=timezone.now())
    create_metric(key="a-first", **KIND, now=timezone.now())
    delete_metric(key="m29", actor=ACTOR, now=timezone.now())
    expect(page.get_by_text("New words")).to_be_visible(timeout=30_000)
    expect(page.locator("#result_list .data-row").first).to_contain_text("a-first")
    expect(page.get_by_role("link", name="m29")).to_have_count(0)
    expect(page.locator(".data-row", has=focused)).to_contain_text("guardrail", ignore_case=True)
    expect(focused).to_be_focused()
    now = focused.bounding_box()
    assert place
    assert now
    assert abs(now["y"] - place["y"]) < 2


def test_list_of_flags__after_changes_elsewhere__has_them_too(visit: Visit) -> None:
    flag_in_production()
    visit.open("/admin/flags/flag/")
    switch = visit.page.get_by_role("switch", name="new-checkout in Staging")
    switch.focus()
    staging, now = Environment.objects.get(key="staging"), timezone.now()
    update_flag(key="new-checkout", environment=staging, changes={"enabled": True}, actor=ACTOR, now=now)
    expect(switch).to_have_attribute("aria-checked", "true", timeout=30_000)
    expect(switch).to_be_focused()
    create_environment(key="younger", name="Younger", actor=ACTOR, now=timezone.now())
    expect(visit.page.get_by_text("This list has changed.")).to_be_visible(timeout=30_000)
    visit.page.get_by_role("link", name="Show the new list").press("Enter")
    expect(visit.page.get_by_role("switch", name="new-checkout in Younger")).to_be_visible()


def test_list_of_flags__when_a_schedule_ends__says_so(visit: Visit) -> None:
    visit.open("/admin/flags/flag/")  # to sign in, and have all files: the list must be open before the end
    end = timezone.now() + timedelta(seconds=8)
    rule = {"type": "percentage", "percentage": 50, "endAt": format_timestamp(end)}
    flag_in_production(rules=[rule], enabled=True)
    visit.open("/admin/flags/flag/")
    cell = visit.page.locator(".data-row", has_text="new-checkout").locator(".field-switch_here")
    expect(cell).to_contain_text("50 % of everyone until")
    expect(cell).to_contain_text("ended", timeout=30_000)
    expect(visit.page.get_by_text("This list has changed.")).to_be_hidden()
