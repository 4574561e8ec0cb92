"""A session that ends, and a form that is out of date, lose nothing that was typed, in a real browser."""

from __future__ import annotations

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from tests.browser.accessibility import complaints
from tests.browser.conftest import PASSWORD, Visit
from tests.browser.flags import flag_in_production, stored

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]
BOTH = pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])
CONDITION = {"attribute": "country", "operator": "equals", "value": "DE"}


def sign_in_again(page: Page) -> None:
    expect(page.get_by_text("Your session has ended, and nothing was saved.")).to_be_visible()
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_text("Your session expired, so nothing was saved.")).to_be_visible()


@BOTH
def test_form__session_ended__is_filled_again(visit: Visit) -> None:
    page, flag = visit.page, flag_in_production()
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.fill("#id_description", "Typed for ten minutes")
    Session.objects.all().delete()
    page.get_by_role("button", name="Save", exact=True).click()
    sign_in_again(page)
    expect(page.locator("#id_description")).to_have_value("Typed for ten minutes")
    assert stored().description == ""
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().description == "Typed for ten minutes"


def test_rules__session_ended__are_in_the_editor_again(visit: Visit) -> None:
    page = visit.page
    flag = flag_in_production(rules=[{"type": "attribute", "conditions": [CONDITION], "percentage": 5}])
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.get_by_label("rule 1", exact=True).get_by_label("Percentage", exact=True).fill("10")
    Session.objects.all().delete()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_label("Username")).to_be_visible()
    assert complaints(page) == []
    sign_in_again(page)
    assert complaints(page) == []
    percentage = page.get_by_label("rule 1", exact=True).get_by_label("Percentage", exact=True)
    expect(percentage).to_have_value("10")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().rules[0]["percentage"] == 10


@BOTH
def test_switch__session_ended__asks_after_signing_in(visit: Visit) -> None:
    page = visit.page
    flag_in_production()
    visit.open("/admin/flags/flag/")
    Session.objects.all().delete()
    page.get_by_role("switch", name="new-checkout in Production").click()
    sign_in_again(page)
    expect(page.get_by_role("heading", name="Switch on new-checkout?")).to_be_visible()
    assert stored().enabled is False
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_text("new-checkout is now on in Production.")).to_be_visible()
    assert stored().enabled is True


@BOTH
def test_switch__cookies_deleted__asks_after_signing_in(visit: Visit) -> None:
    page = visit.page
    flag_in_production()
    visit.open("/admin/flags/flag/")
    page.context.clear_cookies()
    page.get_by_role("switch", name="new-checkout in Staging").click()
    sign_in_again(page)
    expect(page.get_by_role("heading", name="Switch on new-checkout?")).to_be_visible()
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_text("new-checkout is now on in Staging.")).to_be_visible()


def test_form__signed_in_again_in_another_tab__is_filled_again(visit: Visit) -> None:
    page, flag = visit.page, flag_in_production()
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.fill("#id_description", "From before")
    other = page.context.new_page()
    visit.page.context.clear_cookies()
    other.goto(visit.root + "/admin/")
    other.get_by_label("Username").fill("ada")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Log in").click()
    expect(other.get_by_role("heading", name="Changed today")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("The form expired")).to_be_visible()
    expect(page.locator("#id_description")).to_have_value("From before")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().description == "From before"
