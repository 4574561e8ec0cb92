"""The guide's page on Next.js: built by it, rendered on its server, taken over in a browser, and counted."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage

from tests.chromium import Launch
from tests.guide.transcripts import ADDRESS
from tests.system.databases import fresh_database
from tests.system.javascript.experiments import events
from tests.system.openfeature.node import node
from tests.system.openfeature.snippets import experiment_commands, files, prints_as_the_page_says, run_commands
from tests.system.react.shop import Visit, install
from tests.system.server import Keys, Server, free_port, serving, wait_until

pytestmark = [pytest.mark.system, pytest.mark.once]

PARTS = Path(__file__).parent / "next"
PLACES = {"layout.jsx": "app/layout.jsx", "next.config.mjs": "next.config.mjs", "route.js": "app/values/route.js"}
SECONDS_TO_START = 60
TEXTS = {"plain": "Sign up", "warm": "Come aboard"}
USERS = ["ann", "ben", "cleo", "dan"]
"""The first of them gets the text that the page names. The hash of an experiment is the same everywhere."""

FIRST = USERS[0]


@pytest.fixture(scope="module")
def site() -> str:
    """The address of the pages, whose scripts may ask the service."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def server(site: str, tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    settings = {"DEBUG": "true", "ANONYMOUS_SCOPE": "manage", "CORS_ALLOWED_ORIGINS": site}
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **settings) as running:
        running.run("-m", "flags.clients")
        yield running


def build(folder: Path, server: Server) -> None:
    """Install the packages, and let Next.js build the guide's code."""
    install(folder, server, PARTS)
    written = {folder / name: code for name, code in files("next", server).items()}
    written |= {folder / place: (PARTS / name).read_text() for name, place in PLACES.items()}
    for path, code in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    run_commands("NEXT_TELEMETRY_DISABLED=1 npx next build", folder)


@contextmanager
def serving_site(folder: Path, site: str) -> Iterator[None]:
    """Serve what was built, from a process of its own, whose log has no error at the end."""
    next_js = folder / "node_modules" / "next" / "dist" / "bin" / "next"
    command = [node(), next_js, "start", "--hostname", "127.0.0.1", "--port", site.rpartition(":")[2]]
    log = folder / "next.log"
    environment = {**os.environ, "NEXT_TELEMETRY_DISABLED": "1"}
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            wait_until(partial(_answers, site), "Next.js answers", SECONDS_TO_START)
            yield
        finally:
            process.terminate()
    assert "Error" not in log.read_text()


def _answers(site: str) -> bool:
    try:
        return httpx.get(f"{site}/values?visitor={FIRST}").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def running_site(site: str, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    run_commands(experiment_commands("next", server))
    folder = tmp_path_factory.mktemp("site")
    build(folder, server)
    with serving_site(folder, site):
        yield site


@pytest.fixture
def browser(launch_chromium: Launch) -> Iterator[Browser]:
    running = launch_chromium()
    yield running
    running.close()


class Visitor:
    """A visitor with a browser, who has the cookie of an earlier visit."""

    def __init__(self, browser: Browser, site: str, name: str) -> None:
        context = browser.new_context()
        context.add_cookies([{"name": "visitor", "value": name, "url": site}])
        page = context.new_page()
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)
        self.visit = Visit(page, site)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "favicon.ico" not in message.location["url"]:
            self.errors.append(message.text)


def results(server: Server) -> Any:
    return server.ask("GET", "/v1/experiments/sign-up-text").json()["data"]["results"]


def exposures_of(server: Server, user: str) -> int:
    return len(events(server, event="experiment_exposure", userId=user))


def is_exposed(server: Server, user: str) -> bool:
    return exposures_of(server, user) == 1


def test_page__rendered_on_the_server__never_changes_and_is_counted(
    running_site: str, server: Server, browser: Browser
) -> None:
    rendered = {user: httpx.get(running_site, cookies={"visitor": user}).text for user in USERS}
    visitors: dict[str, Visitor] = {}
    for user in USERS:
        visitors[user] = Visitor(browser, running_site, user)
        visit = visitors[user].visit
        visit.wait_until(partial(is_exposed, server, user), "the browser has taken over, and reported")
        visit.order()
        if user == FIRST:
            read = partial(prints_as_the_page_says, "next", f"curl -s {ADDRESS}/v1/experiments/", {ADDRESS: server.url})
            visit.wait_until(read, "the results are those of the page")

    shown = {user: visitor.visit.text() for user, visitor in visitors.items()}
    users = Counter(shown.values())
    counted = {variant: {"sampleSize": users[text], "conversion": 1.0} for variant, text in TEXTS.items()}
    visitors[FIRST].visit.wait_until(lambda: results(server) == counted, "the users and their conversions count")
    assert all(f">{shown[user]}</button>" in html for user, html in rendered.items())
    assert {user: visitor.visit.texts() for user, visitor in visitors.items()} == {
        user: [shown[user]] for user in USERS
    }
    assert {user: visitor.errors for user, visitor in visitors.items()} == {user: [] for user in USERS}
    assert {user: exposures_of(server, user) for user in USERS} == dict.fromkeys(USERS, 1)

    server.ask("PATCH", "/v1/flags/sign-up-text", json={"enabled": False})
    for visitor in visitors.values():
        visitor.visit.wait_for("Sign up")


def test_page__first_visit__gets_a_cookie_and_the_values_of_its_visitor(running_site: str) -> None:
    answer = httpx.get(running_site)
    assert any(f">{text}</button>" in answer.text for text in TEXTS.values())
    assert f'\\"targetingKey\\":\\"{answer.cookies["visitor"]}\\"' in answer.text


def test_bootstrap__in_process_and_by_ofrep__has_the_same_values(running_site: str) -> None:
    local, remote = (values_of(given) for given in httpx.get(f"{running_site}/values?visitor=ann").json())
    assert local == remote
    assert "sign-up-text" in local[1]


def values_of(bootstrap: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return bootstrap["targetingKey"], {flag["key"]: flag["value"] for flag in bootstrap["flags"]}
