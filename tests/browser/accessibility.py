"""What axe finds on a page, and which controls have faint edges: in light and in dark, on a wide screen and on a
telephone.

Most rules ask what a page says, which is the same in light and in dark. The others ask how it looks. These take by far
the longest, and are asked once of all elements that look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

Look = tuple[int, Literal["light", "dark"]]
"""The width of the window, and the theme."""
WIDE: Sequence[Look] = ((1280, "light"),)
ON_A_TELEPHONE: Sequence[Look] = ((390, "light"),)
_LOOKS: Sequence[Look] = ((1280, "dark"), (1280, "light"), (390, "light"), (390, "dark"))

Known = dict[Look, list[str]]
"""The kinds of elements that were looked at already."""

_OPTIONS: Mapping[str, Any] = {
    "resultTypes": ["violations"],
    "preload": False,  # only rules that are not asked for need the text of style sheets
}
_OF_LOOKS = ("color-contrast", "link-in-text-block", "target-size")
_LOOKING: Mapping[str, Any] = {**_OPTIONS, "runOnly": _OF_LOOKS}
_READING: Mapping[str, Any] = {**_OPTIONS, "rules": {rule: {"enabled": False} for rule in _OF_LOOKS}}

# Elements look alike that have the same tags, classes and states up to the body. Those that are hidden are no example.
_MARK_NEW = """
(known) => {
  const states = ["class", "style", "type", "role", "disabled", "aria-current", "aria-selected", "aria-expanded"];
  const roles = ["button", "link", "checkbox", "radio", "switch", "tab", "option", "combobox", "menuitem", "slider"];
  const controls = `a, button, input, select, textarea, summary, ${roles.map((role) => `[role=${role}]`)}`;
  const kinds = new Map([[document.documentElement, ""]]);
  const kind = (part) => {
    if (!kinds.has(part)) {
      const own = states.map((state) => part.getAttribute(state) ?? "");
      if (part.tagName === "TR") own.push(part.rowIndex % 2); // every other row may be striped
      kinds.set(part, `${kind(part.parentElement)}/${part.tagName} ${own.join("|")}`);
    }
    return kinds.get(part);
  };
  const has = new Set(known), found = new Set();
  for (const part of document.body.querySelectorAll("*")) {
    part.removeAttribute("data-new");
    const says = [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!says && !part.matches(controls)) continue;
    if (!part.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || has.has(kind(part))) continue;
    part.setAttribute("data-new", "");
    found.add(kind(part));
  }
  return [...found];
}
"""

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
() => {
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


def complaints(page: Page, known: Known | None = None, *, looks: Sequence[Look] = _LOOKS) -> list[str]:
    """Return what is found, with the looks in which it does. The page ends up as wide as it was.

    `known` lets several pages share what was looked at.
    """
    size, known = page.viewport_size, {} if known is None else known
    page.evaluate(AXE_SCRIPT)
    found: dict[str, list[str]] = {}
    read: set[int] = set()
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_CHANGE_THEME, scheme == "dark")
        violations = page.evaluate(_FAINT)
        if width not in read:
            violations += page.evaluate(_RUN, [{"include": [["html"]]}, _READING])
            read.add(width)
        if new := page.evaluate(_MARK_NEW, known.get((width, scheme), [])):
            violations += page.evaluate(_RUN, [{"include": [["[data-new]"]]}, _LOOKING])
            known.setdefault((width, scheme), []).extend(new)
        for violation in violations:
            found.setdefault(violation, []).append(f"{width} {scheme}")
    if size:
        page.set_viewport_size(size)
    return [f"{page.url}: {violation} ({', '.join(looks)})" for violation, looks in found.items()]
