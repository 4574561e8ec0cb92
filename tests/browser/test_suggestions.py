"""Suggestions for conditions in a real browser: attributes and values that were seen lately."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, expect

from config.models import Environment
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.flags.usage.users import seen, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def suggested(control: Locator) -> list[str]:
    """Return the suggestions of a control that has some."""
    values: list[str] = control.evaluate("input => [...input.list.options].map((option) => option.value)")
    return values


def test_condition__suggests_attributes_and_their_values(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    users = [seen("ada", now, plan="pro", country="DE"), seen("bob", now, plan="free", country="DE")]
    store(production, *users, now=now)
    visit.open("/admin/flags/segment/add/")
    page.get_by_role("button", name="Add condition").press("Enter")
    attribute = page.get_by_label("Attribute")
    expect(attribute).to_be_focused()
    expect(page.locator("#hy-seen-attributes option")).to_have_count(2)
    assert suggested(attribute) == ["country", "plan"]
    attribute.fill("plan")
    value = page.get_by_label("Value", exact=True)
    value.focus()
    expect(page.locator("#hy-seen-values-0 option")).to_have_count(2)
    assert suggested(value) == ["free", "pro"]
    attribute.fill("country")
    value.focus()
    expect(page.locator("#hy-seen-values-1 option")).to_have_count(1)
    assert suggested(value) == ["DE"]


def test_condition__on_several_values__offers_those_that_it_lacks(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    countries = ["DE", "FR", "US", "AT", "CH", "ES", "IT", "NL", "PL"]
    store(
        production,
        *(seen(f"{at}-{turn}", now, country=key) for at, key in enumerate(countries) for turn in range(20 - at)),
        seen("ada", now, plan="pro"),
        now=now,
    )
    visit.open("/admin/flags/segment/add/")
    page.get_by_role("button", name="Add condition").press("Enter")
    page.get_by_label("Attribute").fill("country")
    page.get_by_label("Operator").select_option("in")
    area, offered = page.get_by_label("Values, one a line"), page.locator(".hy-seen button")
    expect(offered).to_have_text(countries[:8])
    assert complaints(page) == []
    area.press("Tab")
    page.keyboard.press("Enter")
    expect(area).to_have_value("DE")
    expect(offered).to_have_text(countries[1:])
    expect(page.get_by_role("button", name="Add FR")).to_be_focused()
    page.get_by_role("button", name="Add US").click()
    expect(area).to_have_value("DE\nUS")
    boxes = [box for button in offered.all() if (box := button.bounding_box())]
    assert min(min(box["width"], box["height"]) for box in boxes) >= 24
    area.fill("\n".join(countries[:-1]))
    expect(offered).to_have_text(["PL"])
    offered.press("Enter")
    expect(offered).to_have_count(0)
    expect(area).to_be_focused()
    page.get_by_label("Attribute").fill("plan")
    expect(offered).to_have_text(["pro"])
