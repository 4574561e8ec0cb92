"""Lists that follow changes in a real browser, and keep what the reader has done."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from experiments.metrics.changes import create_metric, delete_metric, update_metric
from tests.browser.conftest import Visit
from tests.conftest import ACTOR

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

KIND = {"type": "count", "event": "buy", "actor": ACTOR}


def test_list__after_changes__has_them_and_keeps_focus_and_scroll_position(visit: Visit) -> None:
    page = visit.page
    for number in range(30):
        create_metric(key=f"m{number:02}", **KIND, at=timezone.now())
    visit.open("/admin/experiments/metric/")
    focused = page.get_by_role("link", name="m20")
    focused.focus()
    focused.scroll_into_view_if_needed()
    place = focused.bounding_box()
    update_metric(key="m22", changes={"description": "New words"}, actor=ACTOR, at=timezone.now())
    update_metric(key="m20", changes={"role": "guardrail"}, actor=ACTOR, at=timezone.now())
    create_metric(key="a-first", **KIND, at=timezone.now())
    delete_metric(key="m29", actor=ACTOR, at=timezone.now())
    expect(page.get_by_text("New words")).to_be_visible(timeout=30_000)
    expect(page.locator("#result_list .data-row").first).to_contain_text("a-first")
    expect(page.get_by_role("link", name="m29")).to_have_count(0)
    expect(page.locator(".data-row", has=focused)).to_contain_text("guardrail", ignore_case=True)
    expect(focused).to_be_focused()
    now = focused.bounding_box()
    assert place
    assert now
    assert abs(now["y"] - place["y"]) < 2
