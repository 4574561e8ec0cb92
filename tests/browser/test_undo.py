"""Undoing a change from its message and from its page, in a real browser, by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.factories import ExperimentFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]
BOTH = pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])


@BOTH
def test_flags__switched_together__go_back_by_one_press(visit: Visit) -> None:
    page = visit.page
    flag_in_production(key="one")
    flag_in_production(key="two")
    visit.open("/admin/flags/flag/")
    for box in page.locator("input.action-select").all():
        box.check()
    page.locator("select[name=action]").select_option("production:on")
    page.locator("button[name=index], #changelist-actions button[type=submit]").first.press("Enter")
    page.get_by_label("Type Production to confirm").fill("production")
    page.get_by_label("Type Production to confirm").press("Enter")
    expect(page.get_by_text("2 flags are now on in Production.")).to_be_visible()
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_text("The 2 changes are undone.")).to_be_visible()
    expect(page.get_by_role("switch", name="one in Production")).to_have_attribute("aria-checked", "false")
    assert stored("one").enabled is stored("two").enabled is False

    page.get_by_role("link", name="Show the change").press("Enter")
    expect(page.get_by_role("heading", name="2 objects").last).to_be_visible()
    expect(page.get_by_label("Link to share")).to_have_value(page.url)
    page.get_by_role("button", name="Undo").last.press("Enter")
    expect(page.get_by_text("The 2 changes are undone.")).to_be_visible()
    assert stored("one").enabled is stored("two").enabled is True
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


@BOTH
def test_experiment__started_and_stopped_by_mistake__goes_back_by_one_press_each(visit: Visit) -> None:
    page = visit.page
    flag_in_production(enabled=True)
    flag = {"key": "new-checkout", "serves": {"control": False, "green": True}}
    experiment = ExperimentFactory(key="checkout", flag=flag)
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/change/")

    for step, button, message, undone in (
        ("Start", "Start the experiment", "checkout is running.", "draft"),
        ("Start", "Start the experiment", "checkout is running.", None),
        ("Stop", "Stop the experiment", "checkout is stopped.", "running"),
    ):
        page.get_by_role("link", name=step, exact=True).first.press("Enter")
        page.get_by_role("button", name=button).press("Enter")
        expect(page.get_by_text(message, exact=True)).to_be_visible()
        if undone:
            page.get_by_role("button", name="Undo").press("Enter")
            expect(page.get_by_text("The 2 changes are undone.")).to_be_visible()
            experiment.refresh_from_db()
            assert experiment.status == undone
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    assert [rule["type"] for rule in stored().rules] == ["experiment"]
