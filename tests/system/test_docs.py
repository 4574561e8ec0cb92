"""The pages that show the API: they need no key, they render, and they ask no other host for
anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.chromium import Launch
from tests.system.server import PROXY_HEADERS, PUBLIC_HOST, Server

pytestmark = [pytest.mark.system, pytest.mark.once]


@pytest.fixture(scope="module")
def browser(launch_chromium: Launch) -> Iterator[Browser]:
    running = launch_chromium(f"--host-resolver-rules=MAP {PUBLIC_HOST} 127.0.0.1")
    yield running
    running.close()


class Visit:
    """A page, and its requests and errors while it was open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requested: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("requestfailed", self.note_failure)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "response",
            lambda response: response.status >= 400 and self.complaints.append(f"{response.status}: {response.url}"),
        )

    def note_failure(self, request: Request) -> None:
        if request.failure == "csp":  # the browser has not sent it: the page's own policy forbids it
            self.requested.remove(request.url)
        else:
            self.complaints.append(f"{request.failure}: {request.url}")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    context = browser.new_context(extra_http_headers=dict(PROXY_HEADERS))
    yield Visit(context.new_page())
    context.close()


@pytest.fixture
def site(server: Server) -> str:
    """The address by a public name: at 127.0.0.1 such pages behave better than elsewhere."""
    return f"http://{PUBLIC_HOST}:{server.port}"


@pytest.fixture
def operations(server: Server) -> int:
    """The number of operations in the OpenAPI document."""
    paths = server.ask("GET", "/v1/schema", headers={"Accept": "application/json"}).json()["paths"]
    return sum(len(set(path) - {"parameters"}) for path in paths.values())


def assert_all_from(site: str, visit: Visit) -> None:
    others = [url for url in visit.requested if not url.startswith((f"{site}/", "data:", f"blob:{site}/"))]
    assert others == []
    assert visit.complaints == []
    assert f"{site}/v1/schema" in visit.requested


def test_swagger_ui__opened_without_a_key__shows_every_operation_from_this_host_alone(
    site: str, visit: Visit, operations: int
) -> None:
    visit.page.goto(f"{site}/docs")
    expect(visit.page.locator(".opblock")).to_have_count(operations)
    visit.page.get_by_text("Evaluate a flag", exact=True).click()
    expect(visit.page.get_by_text("Whether the flag is on for a user, and why").first).to_be_visible()
    visit.page.wait_for_load_state("networkidle")
    assert_all_from(site, visit)


def test_swagger_ui__given_a_key__calls_the_api(server: Server, visit: Visit, operations: int) -> None:
    server.ask("POST", "/v1/flags", json={"key": "tried-out"}).raise_for_status()
    page = visit.page
    page.goto(f"{server.url}/docs")
    expect(page.locator(".opblock")).to_have_count(operations)
    page.wait_for_load_state("networkidle")  # until the document is read, what is typed into the dialogue may be lost
    page.get_by_role("button", name="Authorize").first.click()
    bearer = page.locator(".auth-container", has_text="bearerKey")
    bearer.get_by_label("auth-bearer-value").press_sequentially(server.keys["production"]["server"])
    expect(bearer.get_by_label("auth-bearer-value")).to_have_value(server.keys["production"]["server"])
    bearer.get_by_role("button", name="Apply credentials").click()
    expect(bearer.get_by_role("button", name="Remove authorization")).to_be_visible()
    page.locator(".btn-done").first.click()
    page.get_by_text("List flags").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table")).to_contain_text("tried-out")
    expect(page.locator(".live-responses-table tbody .response-col_status")).to_contain_text("200")
    assert visit.complaints == []


def test_redoc__opened_without_a_key__shows_every_operation_from_this_host_alone(site: str, visit: Visit) -> None:
    visit.page.goto(f"{site}/redoc")
    for summary in (
        "Evaluate a flag by OFREP",
        "Explain a flag",
        "List segments",
        "List changes",
        "Get the variant of a user",
        "Query events",
    ):
        expect(visit.page.get_by_role("heading", name=summary)).to_be_visible(timeout=30_000)
    visit.page.wait_for_load_state("networkidle")
    assert_all_from(site, visit)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/v1/schema"])
def test_docs__asked_without_a_key__are_answered(server: Server, path: str) -> None:
    response = httpx.get(f"{server.url}{path}", headers=PROXY_HEADERS)
    assert response.status_code == 200
    assert "https://" not in response.text.replace("https://json-schema.org", "")
