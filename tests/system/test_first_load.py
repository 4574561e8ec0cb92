"""What a browser loads when it opens a page of the admin for the first time, and what it need not load again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.chromium import Launch
from tests.system.databases import fresh_database
from tests.system.server import Keys, Server, serving

pytestmark = [pytest.mark.system, pytest.mark.once]

ADDRESSES = ["/admin/", "/admin/flags/flag/", "/admin/flags/flag/add/"]
MOST_BYTES = 450_000
"""Far below the 700 kB that a first load may transfer without fonts."""
ACCOUNT = {"DJANGO_SUPERUSER_USERNAME": "ada", "DJANGO_SUPERUSER_PASSWORD": "halyard-halyard"}


@pytest.fixture(scope="module")
def browser(launch_chromium: Launch) -> Iterator[Browser]:
    running = launch_chromium()
    yield running
    running.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    """A server with demo data, for which a user may sign in. Without TLS, a browser sends no cookies in production."""
    folder, (template, keys) = tmp_path_factory.mktemp("site"), prepared
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, DEBUG="true", **ACCOUNT) as running:
        running.run("manage.py", "demo", "--users", "200", "--events", "2000")
        running.run("manage.py", "createsuperuser", "--noinput", "--email", "ada@shop.example")
        yield running


@pytest.fixture
def context(browser: Browser, site: Server) -> Iterator[BrowserContext]:
    """A browser that has loaded nothing yet, but is signed in."""
    cookies = _sign_in(browser, site)
    fresh = browser.new_context()
    fresh.add_cookies(cookies)
    yield fresh
    fresh.close()


def _sign_in(browser: Browser, site: Server) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/admin/")
    page.fill("#id_username", ACCOUNT["DJANGO_SUPERUSER_USERNAME"])
    page.fill("#id_password", ACCOUNT["DJANGO_SUPERUSER_PASSWORD"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/admin/")
    cookies = context.cookies()
    context.close()
    return cookies


def load(context: BrowserContext, address: str) -> dict[str, tuple[str, int]]:
    """Return what the browser transfers for a page: the kind and the bytes of each address."""
    page = context.new_page()
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    answers: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    network.on("Network.responseReceived", lambda event: answers.update({event["requestId"]: event}))
    network.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.close()
    return {event["response"]["url"]: (event["type"], sizes.get(number, 0)) for number, event in answers.items()}


@pytest.mark.parametrize("address", ADDRESSES)
def test_first_load__without_fonts__is_small_and_is_not_repeated(
    context: BrowserContext, site: Server, address: str
) -> None:
    first = load(context, site.url + address)
    transferred = {url: size for url, (kind, size) in first.items() if kind != "Font"}
    assert len(transferred) > 10
    assert 100_000 < sum(transferred.values()) < MOST_BYTES, transferred
    assert first[site.url + address][1] > 1000
    again = load(context, site.url + address)
    assert {urlsplit(url).path for url, (_, size) in again.items() if size and "/static/" in url} == set()
    assert again[site.url + address][1] > 1000


def test_pages__of_the_admin__are_compressed(site: Server) -> None:
    answer = site.ask("GET", "/admin/login/")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["Vary"]


def test_answers_of_the_api__from_either_lane__are_not(site: Server) -> None:
    flags = site.ask("GET", "/v1/flags")
    assert len(flags.content) > 1000
    evaluated = site.ask("POST", "/v1/evaluate", json={"userId": "ada"})
    assert evaluated.status_code == 200
    assert len(evaluated.content) > 1000
    for answer in (flags, evaluated):
        assert "Content-Encoding" not in answer.headers
