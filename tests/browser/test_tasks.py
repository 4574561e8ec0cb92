"""The tasks of a product manager, each from the Overview, with as few clicks as its table says.

Enter, a chosen option and a ticked box count as a click each. Fields are reached by Tab, so typing costs nothing. The
question that a protected environment asks costs up to two more.

Everything is done by keyboard alone, and only where a mouse could do it, too.
"""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from config.models import ApiKey, Environment
from experiments.lifecycle.changes import get_experiment
from experiments.metrics.changes import get_metric
from experiments.models import Status
from flags.models import Segment
from tests.browser.conftest import Visit
from tests.browser.flags import stored

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

A_QUESTION = 2


def _called(label: str) -> re.Pattern[str]:
    """A star follows the labels of required fields."""
    return re.compile(rf"^{label}\*?$")


class Hand:
    """Does what a person does on a page by keyboard, and counts it as clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: str, name: str, *, within: Locator | None = None) -> None:
        target = (within or self.page.get_by_role("main")).get_by_role(role, name=name).first  # type: ignore[arg-type]
        if role == "link":
            self.follow(target)
        else:
            self.activate(target)

    def follow(self, link: Locator) -> None:
        """Come to the page of a link. The page before may have the next link, too, so it has to be left first."""
        with self.page.expect_navigation():
            self.activate(link)

    def activate(self, target: Locator, key: str = "Enter") -> None:
        self.clicks += 1
        target.click(trial=True)
        self._reach(target)
        self.page.keyboard.press(key)
        self.page.wait_for_load_state()

    def _reach(self, target: Locator) -> None:
        """Come to something by Tab. The page before may have had the same field, and may leave only now."""
        for is_last in (False, False, True):
            target.focus()
            self.page.keyboard.press("Shift+Tab")
            expect(target).not_to_be_focused()
            self.page.keyboard.press("Tab")
            try:
                expect(target).to_be_focused(timeout=5000)
            except AssertionError:
                if is_last:
                    raise
            else:
                return

    def menu(self, name: str) -> None:
        self.click("link", name, within=self.page.locator("#nav-sidebar, aside, nav").first)

    def add(self) -> None:
        """Click the plus sign at the head of a list."""
        self.follow(self.page.locator(".addlink"))

    def press(self, name: str) -> None:
        """Press a button of the page, such as one that stays at its foot."""
        self.activate(self.page.get_by_role("button", name=name, exact=True).first)

    def choose(self, label: str, option: str, *, within: Locator | None = None) -> None:
        self.clicks += 1
        choice = (within or self.page).get_by_label(_called(label)).first
        words = choice.locator("option").filter(has_text=re.compile(rf"^\s*{re.escape(option)}")).first
        self._reach(choice)
        self.page.keyboard.type((words.text_content() or "").strip())

    def tick(self, box: Locator) -> None:
        self.activate(box, "Space")
        expect(box).to_be_checked()

    def type(self, label: str, text: str, *, within: Locator | None = None) -> None:
        field = (within or self.page).get_by_label(_called(label)).first
        self._reach(field)
        if field.get_attribute("type") == "datetime-local":  # whose parts come in the order of the reader's country
            field.fill(text)
            return
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def enter(self) -> None:
        self.clicks += 1
        self.page.keyboard.press("Enter")
        self.page.wait_for_load_state()


@pytest.fixture
def hand(visit: Visit) -> Hand:
    """On the Overview of the demo."""
    call_command("demo", "--users", "300", "--events", "3000", stdout=StringIO())
    visit.open("/admin/")
    return Hand(visit.page)


def rule(hand: Hand, number: int) -> Locator:
    return hand.page.get_by_label(f"rule {number}", exact=True)


def saved(hand: Hand) -> None:
    expect(hand.page.get_by_text("successfully")).to_be_visible()


def test_switch_off__takes_2_clicks_and_a_question(hand: Hand) -> None:
    hand.menu("Flags")
    hand.click("switch", "dark-mode in Production")
    hand.press("Switch off")
    expect(hand.page.get_by_text("dark-mode is now off in Production.")).to_be_visible()
    assert stored("dark-mode").enabled is False
    assert hand.clicks <= 2 + A_QUESTION


def test_roll_out_to_10_percent_of_germany__takes_6_clicks_and_a_question(hand: Hand) -> None:
    hand.menu("Flags")
    hand.click("link", "maintenance-banner")
    hand.press("Add rule")
    hand.type("Percentage", "10", within=rule(hand, 1))
    hand.click("button", "Add a condition", within=rule(hand, 1))
    hand.type("Attribute", "country", within=rule(hand, 1))
    hand.type("Value", "DE", within=rule(hand, 1))
    hand.tick(hand.page.get_by_label("Enabled").first)
    hand.press("Save")
    hand.press("Switch on")
    saved(hand)
    flag = stored("maintenance-banner")
    assert flag.enabled
    assert flag.rules[0]["percentage"] == 10
    assert hand.clicks <= 6 + A_QUESTION


def test_add_to_a_segment__takes_3_clicks(hand: Hand) -> None:
    hand.menu("Segments")
    hand.click("link", "colleagues")
    hand.type("User IDs", "ada")
    hand.press("Save")
    saved(hand)
    assert Segment.objects.get(key="colleagues").user_ids == ["ada"]
    assert hand.clicks <= 3


def test_see_and_undo__takes_2_clicks(hand: Hand) -> None:
    page = hand.page
    hand.menu("Flags")
    page.get_by_role("switch", name="dark-mode in Production").click()
    page.get_by_role("button", name="Switch off").click()
    expect(page.get_by_text("dark-mode is now off in Production.")).to_be_visible()
    hand.menu("Overview")
    hand.clicks = 0
    hand.click("link", "dark-mode", within=page.get_by_role("region", name="Changed today"))
    hand.press("Undo")
    expect(page.get_by_text("The change of dark-mode is undone.")).to_be_visible()
    assert stored("dark-mode").enabled
    assert hand.clicks <= 2


def test_understand__takes_3_clicks(hand: Hand) -> None:
    hand.menu("Find a user")
    hand.type("User ID", "user-00007")
    hand.page.get_by_label("User ID").focus()
    hand.enter()
    expect(hand.page.get_by_text("Rule 1 is the first that matches this user.").first).to_be_visible()
    hand.click("link", "Every step of beta-dashboard")
    expect(hand.page.get_by_text("user-00007").first).to_be_visible()
    assert hand.clicks <= 3


def test_still_used__takes_1_click(hand: Hand) -> None:
    hand.click("link", "legacy-search", within=hand.page.get_by_role("region", name="Stale flags"))
    expect(hand.page.get_by_role("complementary", name="Usage")).to_be_visible()
    assert hand.clicks <= 1


def test_experiment_from_nothing_to_start__takes_14_clicks(hand: Hand) -> None:
    page = hand.page
    hand.menu("Experiments")
    hand.add()
    hand.type("Key", "banner")
    hand.type("Hypothesis", "A banner sells more.")
    page.get_by_label("Key").focus()
    hand.enter()
    hand.choose("Flag", "search-suggestions")
    hand.press("Save and continue")
    hand.press("Save and continue")
    hand.press("Add metric")
    hand.type("Metric", "purchase")
    hand.press("Save and continue")
    hand.type("Planned sample size", "2000")
    hand.press("Save and continue")
    hand.press("Start the experiment")
    expect(page.get_by_text("banner is running.")).to_be_visible()
    assert get_experiment("banner", Environment.objects.get(key="production")).status == Status.RUNNING
    assert hand.clicks <= 14


def test_results_and_ship__takes_3_clicks_and_a_question(hand: Hand) -> None:
    page = hand.page
    hand.click("link", "checkout-button", within=page.get_by_role("region", name="Running experiments"))
    hand.click("link", "Ship", within=page.locator("body"))
    hand.tick(page.locator("input[value=green]"))
    page.locator("#id_reason").fill("It is much better.")
    hand.press("Ship the winner")
    expect(page.get_by_text("checkout-button is stopped.")).to_be_visible()
    assert hand.clicks <= 3 + A_QUESTION


def test_new_metric__takes_6_clicks(hand: Hand) -> None:
    hand.menu("Metrics")
    hand.add()
    hand.type("Key", "carts")
    hand.type("Event", "add_to_cart")
    hand.press("Save")
    saved(hand)
    assert get_metric("carts").event == "add_to_cart"
    assert hand.clicks <= 6


def test_promote__takes_3_clicks_and_a_question(hand: Hand) -> None:
    hand.menu("Flags")
    hand.click("link", "new-checkout")
    hand.click("link", "Promote", within=hand.page.locator("body"))
    hand.press("Promote the flag to Production")
    expect(hand.page.get_by_text("new-checkout is promoted from Staging to Production.")).to_be_visible()
    assert hand.clicks <= 3 + A_QUESTION


def test_events_of_a_user__takes_3_clicks(hand: Hand) -> None:
    hand.menu("Find a user")
    hand.type("User ID", "user-00007")
    hand.page.get_by_label("User ID").focus()
    hand.enter()
    hand.click("link", "Events", within=hand.page.get_by_role("navigation", name="Parts of this page"))
    expect(hand.page.get_by_role("region", name="Events")).to_be_in_viewport()
    assert hand.clicks <= 3


def test_key__takes_5_clicks(hand: Hand) -> None:
    hand.menu("API keys")
    hand.add()
    hand.type("Name", "shop")
    hand.choose("Scope", "client")
    hand.press("Save")
    expect(hand.page.get_by_text("Copy this key now.")).to_be_visible()
    assert ApiKey.objects.get(name="shop").scope == "client"
    assert hand.clicks <= 5


def test_schedule_for_tomorrow__takes_5_clicks_and_a_question(hand: Hand) -> None:
    hand.menu("Flags")
    hand.click("link", "dark-mode")
    hand.activate(rule(hand, 1).locator("summary", has_text="More"))
    tomorrow = timezone.now() + timedelta(days=1)
    hand.type("Starts", tomorrow.strftime("%Y-%m-%dT%H:%M"), within=rule(hand, 1))
    hand.press("Save")
    hand.press("Save")  # and to switch the flag off until then
    saved(hand)
    assert stored("dark-mode").rules[0]["startAt"][:10] == tomorrow.date().isoformat()
    assert hand.clicks <= 5 + A_QUESTION


def test_find_what_is_scheduled__takes_1_click(hand: Hand) -> None:
    agenda = hand.page.get_by_role("region", name="Next 14 days")
    hand.click("link", "delivery-date", within=agenda)
    expect(hand.page.get_by_role("heading", name="delivery-date").first).to_be_visible()
    assert hand.clicks <= 1
