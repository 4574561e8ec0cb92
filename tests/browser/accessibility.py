"""What axe finds on a page, in light and in dark, on a wide screen and on a telephone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_OPTIONS: Mapping[str, Any] = {
    "resultTypes": ["violations"],
    "preload": False,  # only rules that are not asked for need the text of style sheets
    "rules": {"target-size": {"enabled": True}},  # which axe leaves out otherwise
}
_OF_COLOURS: Mapping[str, Any] = {**_OPTIONS, "runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules that look in each theme at each width. The others look once in each theme and once at each width."""

Look = tuple[int, Literal["light", "dark"], Mapping[str, Any]]
IN_BOTH_THEMES: Sequence[Look] = ((1280, "dark", _OPTIONS), (390, "light", _OPTIONS))
_LOOKS: Sequence[Look] = (*IN_BOTH_THEMES, (1280, "light", _OF_COLOURS), (390, "dark", _OF_COLOURS))
WIDE: Sequence[Look] = ((1280, "light", _OPTIONS),)
ON_A_TELEPHONE: Sequence[Look] = ((390, "light", _OPTIONS),)

_CHANGE_THEME = """
async (isDark) => {
  document.documentElement.classList.toggle("dark", isDark); // the theme of the admin asks the system only once
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))); // observers of sizes
  // axe would judge a colour on its way to another one.
  for (const moving of document.getAnimations()) if (moving instanceof CSSTransition) moving.finish();
}
"""

_RUN = """
async ([context, options]) => {
  const { violations } = await axe.run(context, options);
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target}: ${node.html.slice(0, 99)}`));
}
"""


def complaints(page: Page, exclude: Sequence[str] = (), *, looks: Sequence[Look] = _LOOKS) -> list[str]:
    """Return what axe finds, with the looks in which it does. The page ends up as wide as it was."""
    size = page.viewport_size
    page.evaluate(AXE_SCRIPT)
    context = {"exclude": [[selector] for selector in exclude]}
    found: dict[str, list[str]] = {}
    for width, scheme, options in looks:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_CHANGE_THEME, scheme == "dark")
        for violation in page.evaluate(_RUN, [context, options]):
            found.setdefault(violation, []).append(f"{width} {scheme}")
    if size:
        page.set_viewport_size(size)
    return [f"{page.url}: {violation} ({', '.join(looks)})" for violation, looks in found.items()]
