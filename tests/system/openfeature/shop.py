"""A web site with OpenFeature's client for browsers, and visits that record the requests of its
page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, Response

from tests.system.openfeature.node import FOLDER
from tests.system.server import Server, wait_until

BULK = "/ofrep/v1/evaluate/flags"
STREAMS = "/ofrep/v1/streams/"


class QuietFiles(SimpleHTTPRequestHandler):
    """The files of this folder, with no line in the tests' output for each."""

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving_shop() -> Iterator[int]:
    """The port on 127.0.0.1 where the page is, as shop.html."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=FOLDER)) as site:
        site.daemon_threads = True
        threading.Thread(target=site.serve_forever, daemon=True).start()
        try:
            yield site.server_port
        finally:
            site.shutdown()


@dataclass(frozen=True)
class Asked:
    """One request for all flags."""

    status: int
    if_none_match: str | None
    query: str


class Visit:
    """A page of the shop, and its requests to the service."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.asked: list[Asked] = []
        self.opened_streams = 0
        page.on("response", self._note_answer)
        page.goto(f"{origin}/shop.html")
        page.wait_for_function("window.shop")

    def _note_answer(self, response: Response) -> None:
        address = urlsplit(response.url)
        self.opened_streams += address.path.startswith(STREAMS) and response.ok
        if address.path == BULK and response.request.method == "POST":
            sent = response.request.headers.get("if-none-match")
            self.asked.append(Asked(response.status, sent, address.query))

    def start(self, server: Server, key: str, context: Mapping[str, Any], **options: Any) -> str:
        """The status of the provider once it has tried."""
        given = {"address": server.url, "key": key, "context": context, "options": options}
        status: str = self.page.evaluate("shop.start", given)
        return status

    def become(self, context: Mapping[str, Any]) -> None:
        """Show the same page for another user, or with other attributes."""
        self.page.evaluate("shop.become", context)

    def ask(self, flag: str, default: Any) -> dict[str, Any]:
        """The details that the method for the type of the default returns."""
        details: dict[str, Any] = self.page.evaluate("shop.ask", {"flag": flag, "default": default})
        return details

    def wait_for(self, flag: str, enabled: bool, *, seconds: float = 15) -> None:
        """Until the client answers so by itself: nothing here makes the page ask the service."""
        script = "([flag, enabled]) => shop.ask({flag, default: !enabled}).value === enabled"
        self.page.wait_for_function(script, arg=[flag, enabled], timeout=seconds * 1000)

    def wait_for_streams(self, count: int) -> None:
        """Until the service has begun to answer on so many streams, one after the other."""
        self.wait_until(lambda: self.opened_streams >= count, f"the page has opened {count} streams")

    def wait_for_answers(self, count: int) -> None:
        """Until the page has got so many answers to its requests for all flags."""
        self.wait_until(lambda: len(self.asked) >= count, f"the page has {count} answers")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the browser deliver its events, which it does only during a call."""
        wait_until(lambda: bool(self.page.evaluate("true")) and condition(), what, 15)

    def events(self) -> list[Any]:
        heard: list[Any] = self.page.evaluate("shop.events")
        return heard
