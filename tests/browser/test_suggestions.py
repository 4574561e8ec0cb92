"""Suggestions for conditions in a real browser: attributes and values that were seen lately."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, expect

from config.models import Environment
from tests.browser.conftest import Visit
from tests.flags.recent_users.users import note, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def suggested(control: Locator) -> list[str]:
    """Return the suggestions of a control that has some."""
    values: list[str] = control.evaluate("input => [...input.list.options].map((option) => option.value)")
    return values


def test_condition__suggests_attributes_and_their_values(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    users = [note("ada", now, plan="pro", country="DE"), note("bob", now, plan="free", country="DE")]
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
