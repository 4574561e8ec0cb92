"""A browser on the real pages, signed in, that notes every host it is sent to and every error of a script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page

from tests.chromium import Launch

PASSWORD = "halyard-halyard"


@dataclass
class Visit:
    """A page with what went on behind it."""

    page: Page
    root: str
    hosts: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.root + path)


@pytest.fixture(scope="session")
def browser(live_server: Any, launch_chromium: Launch) -> Iterator[Browser]:
    """One for all tests, which goes before the server does."""
    started = launch_chromium()
    yield started
    started.close()


def session_of(user: User) -> str:
    """Sign a user in, and return the value of the cookie."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def visit(browser: Browser, live_server: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A superuser who has just signed in. `script` in the test's parameters may switch JavaScript off."""
    user = User.objects.create_superuser("ada", password=PASSWORD)
    has_script = getattr(request, "param", True)
    context = browser.new_context(java_script_enabled=has_script, viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session_of(user), "url": live_server.url}])
    page = context.new_page()
    page.set_default_timeout(15_000)
    visited = Visit(page, live_server.url)
    page.on("request", lambda sent: visited.hosts.add(urlsplit(sent.url).netloc))
    page.on("pageerror", lambda error: visited.errors.append(str(error)))
    yield visited
    context.close()
    _wait_for_server()
    assert visited.hosts <= {urlsplit(live_server.url).netloc}, "a page loads something from another host"
    assert not visited.errors


def _wait_for_server() -> None:
    """Let the server's threads notice that the browser has gone, before the database is emptied under their feet."""
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(timeout=10)
