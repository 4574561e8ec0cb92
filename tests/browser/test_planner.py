"""Planning an experiment, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])
def test_planner__asked_from_the_sidebar__answers_under_an_address_that_can_be_kept(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/")
    page.get_by_role("link", name="Planner").click()
    page.get_by_label("Baseline").fill("2")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_text("Must be above 0 and below 1")).to_be_visible()
    page.get_by_label("Baseline").fill("0.1")
    page.get_by_label("Users a day").fill("5000")
    page.get_by_label("Users a day").press("Enter")
    expect(page.get_by_text("29 days")).to_be_visible()
    expect(page.get_by_text("an increase of 5 %, from 10 % to 10.5 %")).to_be_visible()
    page.goto(page.url)
    expect(page.get_by_text("24 days")).to_be_visible()
