"""The guide as people read it: on a telephone, in the dark, with a search and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from config.guide.pages import PAGES
from config.guide.rendering import page_url
from flags.clients.building import build
from tests.browser.conftest import Visit

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

TELEPHONE = {"width": 390, "height": 844}
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CLIENTS = "/clients/"


@pytest.fixture(autouse=True, scope="module")
def _clients_are_built() -> None:
    build()


@pytest.fixture
def reader(browser: Browser, live_server: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Somebody who is not signed in. The test's parameters are options of the browser's context."""
    context = browser.new_context(**getattr(request, "param", {}))
    visit = Visit(context.new_page(), live_server.url)
    visit.page.on("request", lambda sent: visit.hosts.add(urlsplit(sent.url).netloc))
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    visit.page.on("console", lambda message: message.type == "error" and visit.errors.append(message.text))
    yield visit
    context.close()
    assert visit.hosts == {urlsplit(live_server.url).netloc}
    assert visit.errors == []


@pytest.mark.parametrize("reader", [{"viewport": TELEPHONE}], indirect=True)
def test_pages__on_a_telephone__do_not_scroll_sideways(reader: Visit) -> None:
    wide = []
    for address in [*map(page_url, PAGES), CLIENTS]:
        reader.open(address)
        if reader.page.evaluate(SIDEWAYS) > 0:
            wide.append(address)
    assert wide == []


@pytest.mark.parametrize(
    "reader",
    [{"viewport": TELEPHONE}, {"viewport": TELEPHONE, "java_script_enabled": False}],
    indirect=True,
    ids=["with script", "without script"],
)
def test_menu__on_a_telephone__opens_and_leads_to_a_page(reader: Visit) -> None:
    reader.open("/guide/")
    page = reader.page
    menu = page.get_by_role("navigation", name="Guide")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Pages of the guide").click()
    menu.get_by_role("link", name="Settings", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


@pytest.mark.parametrize("reader", [{}, {"viewport": TELEPHONE}], indirect=True, ids=["desktop", "telephone"])
def test_search__by_keyboard__finds_a_page(reader: Visit) -> None:
    reader.open("/guide/")
    page = reader.page
    page.keyboard.press("/")
    page.keyboard.type("idempotency_conflict")
    first = page.get_by_role("option").first
    expect(first).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("combobox")).to_have_attribute("aria-activedescendant", first.get_attribute("id"))
    expect(first.locator("mark").first).to_have_text("idempotency_conflict")
    assert page.evaluate(SIDEWAYS) <= 0
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/guide/(errors|requests)#"))  # both pages explain the code
    expect(page.get_by_role("option")).to_have_count(0)


def test_search__arrows_and_escape__move_and_close(reader: Visit) -> None:
    reader.open("/guide/")
    page = reader.page
    page.keyboard.press("Control+k")
    page.keyboard.type("exposure")
    options = page.get_by_role("option")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_search__without_a_match__says_so(reader: Visit) -> None:
    reader.open("/guide/settings")
    reader.page.get_by_role("combobox").fill("<b>xyzzy")
    expect(reader.page.get_by_role("listbox")).to_contain_text("Nothing found for “<b>xyzzy”.")
    expect(reader.page.get_by_role("status")).to_have_text("0 results")


@pytest.mark.parametrize("reader", [{"java_script_enabled": False}], indirect=True)
def test_page__without_script__has_everything_but_the_search(reader: Visit) -> None:
    reader.open("/guide/tour/flags")
    expect(reader.page.get_by_role("search")).to_be_hidden()
    expect(reader.page.get_by_role("navigation", name="Guide")).to_be_visible()
    reader.page.locator("a[rel=next]").click()
    reader.page.wait_for_url("**/guide/tour/targeting")


@pytest.mark.parametrize("reader", [{"color_scheme": "dark"}], indirect=True)
def test_colours__of_readers_who_want_them_dark__are_dark(reader: Visit) -> None:
    reader.open("/guide/")
    assert brightness(reader.page, "body") < 60


def brightness(page: Page, selector: str) -> int:
    """Return the mean of red, green and blue, 0 to 255, of an element's background."""
    script = """(selector) => {
      const canvas = document.createElement("canvas").getContext("2d");
      canvas.fillStyle = getComputedStyle(document.querySelector(selector)).backgroundColor;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)].reduce((sum, part) => sum + part) / 3;
    }"""
    return int(page.evaluate(script, selector))


def test_skip_link__pressed_first__leads_to_the_content(reader: Visit) -> None:
    reader.open("/guide/settings")
    reader.page.keyboard.press("Tab")
    expect(reader.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    reader.page.keyboard.press("Enter")
    expect(reader.page.locator("main")).to_be_focused()
