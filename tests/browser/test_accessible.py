"""Every page is accessible: axe finds nothing on it, in light and in dark, and its landmarks work by keyboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any, Literal

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from playwright.sync_api import Browser, Page, expect

from config.access.api_keys import create_key
from config.guide.pages import PAGES
from config.guide.rendering import page_url
from config.models import Environment, Scope
from config.webhooks.outbox import queue_test
from config.webhooks.writes import create_webhook
from flags.changes.kill_switches import create_kill_switch
from tests.browser.accessibility import ON_A_TELEPHONE, WIDE, Known, Look, complaints
from tests.browser.admin_pages import addresses
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

SCHEMES: Sequence[Literal["light", "dark"]] = ("light", "dark")

READ_ICONS = """
[...document.querySelectorAll(".material-symbols-outlined")]
  .filter((icon) => icon.textContent.trim() && !icon.closest("[aria-hidden=true], [role=img][aria-label]"))
  .map((icon) => icon.outerHTML);
"""
"""Icons that a screen reader would read out: they are ligatures, such as `expand_more`."""


def names_with_ligatures(page: Page) -> list[str]:
    """Return what a screen reader would say with the name of an icon in it. Other names have no underscores.

    Boxes and images are left out: they contain such a text, but their names are read instead of it.
    """
    icons = set(page.locator(".material-symbols-outlined").all_text_contents())
    ligatures = {icon.strip() for icon in icons if "_" in icon}
    tree = page.locator("body").aria_snapshot()
    said = (line for line in tree.splitlines() if not line.strip().startswith(("- checkbox", "- img")))
    return [line for line in said if any(ligature in line for ligature in ligatures)]


def fill_database() -> None:
    """Store something of every kind."""
    call_command("demo", "--users", "200", "--events", "2000", stdout=StringIO())
    Group.objects.create(name="testers")
    production = Environment.objects.get(key="production")
    create_key(name="shop", scope=Scope.SERVER, environment=production, actor=ACTOR, now=NOON)
    create_kill_switch(name="pager", environment=production, flags=["new-checkout"], actor=ACTOR, now=NOON)
    webhook, _ = create_webhook(name="chat", url="https://hooks.example.com", actor=ACTOR, now=NOON)
    queue_test(webhook, NOON)


def test_pages__of_everything__give_axe_nothing_to_complain_about(visit: Visit) -> None:
    fill_database()
    page = visit.page
    page.set_viewport_size({"width": 1280, "height": 844})
    found: list[str] = []
    known: Known = {}
    for address in addresses():
        visit.open(f"/admin/{address}")
        assert page.get_by_role("main").count() == 1, address
        found += [f"{page.url}: {icon}" for icon in (*page.evaluate(READ_ICONS), *names_with_ligatures(page))]
        found += complaints(page, known)
    assert found == [], "\n".join(found)


FAINT = '<html lang="en"><title>Faint</title><main><h1>Faint</h1>{}</main>'
TEXTS = '<p style="color: #bbb">One</p><p style="color: #bbb">Two</p><p>Three</p>'


def test_complaints__of_faint_texts__are_one_for_each_kind_of_element(reader: Page) -> None:
    known: Known = {}
    found = []
    for texts in (TEXTS, TEXTS, f'{TEXTS}<p class="new" style="color: #bbb">New</p>'):
        reader.set_content(FAINT.format(texts))
        found.append(
            [complaint for complaint in complaints(reader, known, looks=WIDE) if "color-contrast" in complaint]
        )
    assert [len(of_page) for of_page in found] == [2, 0, 1]
    assert "New" in found[2][0]


@pytest.mark.parametrize("width", [390, 1280])
def test_chooser_of_rights__at_any_width__fits(visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 844})
    visit.open("/admin/auth/group/add/")
    box = visit.page.locator(".selector-chosen").bounding_box()
    assert box
    assert box["x"] + box["width"] <= width


@pytest.fixture
def reader(browser: Browser) -> Iterator[Page]:
    """The page of somebody who is not signed in."""
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("address", ["/admin/login/", "/guide/", "/clients/"])
def test_public_page__gives_axe_nothing_to_complain_about(reader: Page, live_server: Any, address: str) -> None:
    reader.goto(live_server.url + address)
    reader.wait_for_load_state("networkidle")
    assert complaints(reader) == []


def test_guide__every_page__gives_axe_nothing_to_complain_about(reader: Page, live_server: Any) -> None:
    found: list[str] = []
    known: Known = {}
    for address in map(page_url, PAGES):
        reader.goto(live_server.url + address)
        found += complaints(reader, known)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("address", ["/docs", "/redoc"])
@pytest.mark.parametrize("looks", [WIDE, ON_A_TELEPHONE])
def test_reference__gives_axe_nothing_to_complain_about(
    reader: Page, live_server: Any, address: str, looks: Sequence[Look]
) -> None:
    reader.goto(live_server.url + address)
    reader.wait_for_load_state("networkidle")
    assert complaints(reader, looks=looks) == []
    # It has no dark theme, and stays light in all its parts, so there is nothing else to look at.
    pictures = []
    for scheme in SCHEMES:
        reader.emulate_media(color_scheme=scheme)
        assert reader.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light only"
        pictures.append(reader.screenshot(animations="disabled"))
    assert pictures[0] == pictures[1]


def test_page__by_keyboard__leads_past_the_menu_and_opens_it(visit: Visit) -> None:
    visit.open("/admin/flags/flag/")
    visit.page.keyboard.press("Tab")
    expect(visit.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    visit.page.keyboard.press("Enter")
    expect(visit.page.get_by_role("main")).to_be_focused()
    menu = visit.page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "true")
    menu.focus()
    visit.page.keyboard.press("Enter")
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(visit.page.get_by_role("link", name="Segments")).to_be_hidden()


FOCUS_IS_COVERED = """
() => {
  const box = document.activeElement.getBoundingClientRect();
  const above = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return !above || !(document.activeElement.contains(above) || above.contains(document.activeElement));
}
"""


def test_form__by_keyboard__keeps_the_focus_above_the_bar_of_its_buttons(visit: Visit) -> None:
    page = visit.page
    rules = [{"type": "percentage", "percentage": share} for share in range(1, 7)]
    flag = flag_in_production(rules=rules)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.get_by_label("Description").focus()
    covered = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUS_IS_COVERED):
            covered.append(page.evaluate("document.activeElement.outerHTML"))
    assert covered == []
