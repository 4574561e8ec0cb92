"""What axe finds on a page, in light and in dark, on a wide screen and on a telephone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_WIDTHS = (1280, 390)
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("dark", "light")

_OPTIONS: Mapping[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
"""axe leaves out the size of targets unless it is asked for."""

_SET_THEME = "(isDark) => document.documentElement.classList.toggle('dark', isDark)"
"""The theme of the admin looks only once what the system prefers."""

_RUN = """
async (options) => {
  // axe would judge a colour on its way to another one.
  for (const moving of document.getAnimations()) if (moving instanceof CSSTransition) moving.finish();
  const { violations } = await axe.run(options);
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target}: ${node.html.slice(0, 99)}`));
}
"""


def complaints(page: Page) -> list[str]:
    """Return what axe finds, with the looks in which it does. The page ends up light and as wide as it was."""
    size = page.viewport_size
    page.evaluate(AXE_SCRIPT)
    found: dict[str, list[str]] = {}
    for width, scheme in product(_WIDTHS, _SCHEMES):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_SET_THEME, scheme == "dark")
        for violation in page.evaluate(_RUN, _OPTIONS):
            found.setdefault(violation, []).append(f"{width} {scheme}")
    if size:
        page.set_viewport_size(size)
    return [f"{page.url}: {violation} ({', '.join(looks)})" for violation, looks in found.items()]
