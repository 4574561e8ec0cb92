"""A shop in React: the packages from a running service, the guide's code, and visits that record what was shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Page

from tests.system.openfeature import node
from tests.system.openfeature.snippets import command, files, run_commands
from tests.system.server import Server, wait_until

_SITE = Path(__file__).parent / "site.mjs"
_RECORD = """
  window.shown = [];
  new MutationObserver(() => {
    const text = document.querySelector("button")?.textContent;
    if (text !== undefined && text !== shown.at(-1)) shown.push(text);
  }).observe(document, {subtree: true, childList: true, characterData: true});
"""


def install(folder: Path, server: Server, source: Path = node.FOLDER) -> None:
    """Install the packages of the service beside those of the registry, which `source` has."""
    node.node()  # sees to it that the packages of the registry are there
    packages = (source / "node_modules").resolve()
    shutil.copytree(packages, folder / "node_modules", symlinks=True, copy_function=_link)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, folder)
    addresses = re.findall(r"npm install (\S+\.tgz)", httpx.get(f"{server.url}/clients/").text)
    run_commands(f"npm install --ignore-scripts --no-audit --no-fund {' '.join(addresses)}", folder)


def _link(source: str, target: str) -> None:
    """Share a file, unless it is npm's own or the folders are in different file systems."""
    try:
        if source.endswith("/.package-lock.json"):  # npm writes into it
            shutil.copy2(source, target)
        else:
            os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def build(folder: Path, server: Server) -> None:
    """Install the packages, and build the guide's code."""
    install(folder, server)
    for name, code in files("react", server).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    shutil.copy(_SITE, folder)
    for name in ("main", "rendered"):
        run_commands(command("react", f"npx esbuild {name}.jsx"), folder)


@contextmanager
def serving(folder: Path, port: int) -> Iterator[None]:
    """Serve what was built, from a process of its own."""
    process = subprocess.Popen([node.node(), _SITE.name, str(port)], cwd=folder, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


class Visit:
    """A page of the shop in a browser that was never there."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        page.add_init_script(_RECORD)
        page.goto(address)

    def reload(self) -> None:
        self._page.reload()

    def forget_values(self) -> None:
        """Drop the values that the browser keeps, so that only those of the page's server remain."""
        self._page.evaluate("localStorage.clear()")

    def text(self) -> str:
        """What the button shows."""
        return self._page.locator("button").inner_text()

    def texts(self) -> list[str]:
        """What the button has shown since the page was loaded."""
        shown: list[str] = self._page.evaluate("shown")
        return shown

    def order(self) -> None:
        self._page.locator("button").click()

    def wait_for(self, text: str) -> None:
        self._page.locator("button", has_text=text).wait_for()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the browser deliver its events, which it does only during a call."""
        wait_until(lambda: bool(self._page.evaluate("true")) and condition(), what, 30)
