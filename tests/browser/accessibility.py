"""What axe finds on a page, and which controls have faint edges: in light and in dark, on a wide screen and on a
telephone.
"""

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

# WCAG 1.4.11, which axe leaves to people: the edge of what can be filled in or switched, or its surface, differs from
# what is around it by 3 to 1.
_FAINT = """
(excluded) => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    canvas.fillStyle = "#fff";
    for (const colour of ["#fff", ...colours]) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)
      .map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const surfaces = (part) => part ? [...surfaces(part.parentElement), getComputedStyle(part).backgroundColor] : [];
  const contrast = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const others = "[type=hidden], [type=submit], [type=range], [type=file]";
  return [...document.querySelectorAll(`input:not(${others}), select, textarea, [role=switch]`)]
    .filter((part) => part.checkVisibility({ opacityProperty: true }) && !part.matches(":disabled, [readonly]"))
    .filter((part) => !excluded.some((selector) => part.closest(selector)))
    .filter((part) => {
      const around = surfaces(part.parentElement), style = getComputedStyle(part);
      // The browser draws some itself, as WCAG allows.
      if (style.appearance === "auto" && part.matches("[type=checkbox], [type=radio]")) return false;
      const frames = [style, getComputedStyle(part.parentElement)].filter((one) => parseFloat(one.borderBottomWidth));
      const edges = [style.backgroundColor, ...frames.map((one) => one.borderBottomColor)];
      return !edges.some((edge) => contrast(paint([...around, edge]), paint(around)) >= 3);
    })
    .map((part) => `faint-edge: ${part.outerHTML.slice(0, 99)}`);
}
"""

_RUN = """
async ([context, options]) => {
  const { violations } = await axe.run(context, options);
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target}: ${node.html.slice(0, 99)}`));
}
"""


def complaints(page: Page, exclude: Sequence[str] = (), *, looks: Sequence[Look] = _LOOKS) -> list[str]:
    """Return what is found, with the looks in which it does. The page ends up as wide as it was."""
    size = page.viewport_size
    page.evaluate(AXE_SCRIPT)
    context = {"exclude": [[selector] for selector in exclude]}
    found: dict[str, list[str]] = {}
    for width, scheme, options in looks:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_CHANGE_THEME, scheme == "dark")
        for violation in (*page.evaluate(_RUN, [context, options]), *page.evaluate(_FAINT, exclude)):
            found.setdefault(violation, []).append(f"{width} {scheme}")
    if size:
        page.set_viewport_size(size)
    return [f"{page.url}: {violation} ({', '.join(looks)})" for violation, looks in found.items()]
