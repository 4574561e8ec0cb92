"""The one Playwright of a test session: a second one in the same thread would not start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

Launch = Callable[..., Browser]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",
    "--renderer-process-limit=1",
    "--font-render-hinting=none",  # so that texts are as wide as in a browser with a window
)

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one that is installed. The shell draws no window around pages, and takes a third less processor time."""

_PATIENCE = 30_000  # milliseconds, for pages on a machine that has much else to do


@pytest.fixture(scope="session")
def launch_chromium() -> Iterator[Launch]:
    """Start a browser with these flags in addition to the usual ones."""
    # Playwright's own loop runs in this thread; Django takes it for an async view that must not touch the database.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    installed = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        yield lambda *flags: playwright.chromium.launch(executable_path=installed, args=[*_FLAGS, *flags])
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def line_printed(page: Page, cause: Callable[[], object], *, after: str = "") -> str:
    """Return the next line other than `after` that the page's code prints once this has been called."""
    # The browser logs errors of its own there, such as a site's icon that is missing.
    with page.expect_console_message(lambda message: message.type == "log" and message.text != after) as printed:
        cause()
    return printed.value.text
