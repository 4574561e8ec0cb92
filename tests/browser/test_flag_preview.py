"""Who would flip, in a real browser: the form of a flag says it before it is saved."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.models import Environment
from flags.changes.flag_changes import update_flag
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.browser.test_layout_shifts import OBSERVE
from tests.conftest import ACTOR
from tests.flags.usage.users import seen, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}


def test_form__before_it_is_saved__says_who_would_flip(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    plans = ["pro"] * 3 + ["free"] * 9
    store(production, *(seen(f"user-{at}", now, plan=plan) for at, plan in enumerate(plans)), now=now)
    flag = flag_in_production(rules=[PRO], enabled=True)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    panel = page.get_by_role("region", name="Who would flip in Production")
    expect(panel.get_by_role("status")).to_contain_text("none would see something else")
    rule = page.get_by_label("rule 1", exact=True)
    expect(rule.get_by_text("25 % of the users seen since")).to_be_visible()

    rule.get_by_label("Value", exact=True).fill("free")
    expect(panel.get_by_role("status")).to_contain_text("12 (100 %) would see something else.")
    expect(panel.get_by_role("row")).to_have_count(1 + 10)
    expect(panel.get_by_role("row", name="user-0 on off")).to_be_visible()
    expect(panel.get_by_role("row", name="user-7 off on")).to_be_visible()
    expect(rule.get_by_text("75 % of the users seen since")).to_be_visible()
    assert stored().rules == [PRO]

    page.get_by_role("button", name="Add rule").press("Enter")
    page.get_by_label("rule 2", exact=True).get_by_label("Percentage", exact=True).fill("120")
    expect(panel.get_by_role("status")).to_contain_text("no preview of this edit. Rule 2, percentage: Must be a number")
    expect(panel.get_by_role("row")).to_have_count(0)
    page.get_by_role("button", name="Remove rule 2").press("Enter")
    expect(panel.get_by_role("status")).to_contain_text("12 (100 %)")
    panel.get_by_role("link", name="user-7").press("Enter")
    expect(page.get_by_role("heading", name="user-7")).to_be_visible()


@pytest.mark.parametrize("visit", [False], indirect=True)
def test_form__without_script__has_no_panel(visit: Visit) -> None:
    visit.open(f"/admin/flags/flag/{flag_in_production().pk}/change/")
    expect(visit.page.get_by_text("Who would flip")).to_be_hidden()


def test_form_of_a_new_flag__before_it_is_saved__says_who_would_get_it(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    plans = ["pro"] * 3 + ["free"] * 9
    store(production, *(seen(f"user-{at}", now, plan=plan) for at, plan in enumerate(plans)), now=now)
    visit.open("/admin/flags/flag/add/")
    panel = page.get_by_role("region", name="Who would get it in Production")
    expect(panel.get_by_role("status")).to_contain_text("12 (100 %) would have it on, once the flag is on.")
    page.get_by_role("button", name="Add rule").press("Enter")
    rule = page.get_by_label("rule 1", exact=True)
    rule.get_by_label("Percentage", exact=True).fill("0")
    expect(panel.get_by_role("status")).to_contain_text("none would have it on")
    expect(rule.get_by_text("No user seen since")).to_be_visible()


def test_list__beside_its_switches__says_for_how_many_users_flags_are_on_and_keeps_up(visit: Visit) -> None:
    production, now, page = Environment.objects.get(key="production"), timezone.now(), visit.page
    plans = ["pro"] * 3 + ["free"] * 9
    store(production, *(seen(f"user-{at}", now, plan=plan) for at, plan in enumerate(plans)), now=now)
    flag_in_production(rules=[PRO], enabled=True)
    flag_in_production(key="plain", enabled=True)
    page.add_init_script(OBSERVE)
    visit.open("/admin/flags/flag/")
    share = page.locator(".data-row", has_text="new-checkout").locator(".hy-share")
    expect(share).to_have_text("25 % of users")
    assert "25 % of the users seen since" in str(share.get_attribute("title"))
    expect(page.locator(".hy-share")).to_have_count(1)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.shifts") == []
    free = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "free"}]}
    update_flag(key="new-checkout", environment=production, changes={"rules": [free]}, actor=ACTOR, now=timezone.now())
    expect(share).to_have_text("75 % of users", timeout=30_000)
