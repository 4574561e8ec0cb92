"""Renders the Markdown of a page to HTML, with its sections for the table of contents and the search."""

from __future__ import annotations

import re
import struct
from collections import Counter
from functools import cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, SubElement

import markdown
from django.templatetags.static import static
from django.urls import reverse
from markdown import Markdown
from markdown.extensions import Extension
from markdown.extensions.tables import TableExtension
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from config.guide.pages import BY_PATH, FOLDER, PAGES, Page

_HEADINGS = ("h1", "h2", "h3", "h4")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMES = {
    "sh": "Shell",
    "http": "Answer",
    "json": "JSON",
    "text": "Output",
    "js": "JavaScript",
    "jsx": "JSX",
    "yaml": "YAML",
}
_PLACES = {"/clients/", "/docs", "/redoc"}
"""Paths of pages outside the guide. As code, they become links here, and lead nowhere in a repository."""
_ANSWERS = {"http", "json", "text"}
"""Languages of output. Such a block below a block of code is drawn as a part of it."""


class Section(NamedTuple):
    """A part of a page with an anchor. `level` is 1 for the whole page."""

    level: int
    anchor: str
    title: str
    text: str


class Rendered(NamedTuple):
    html: str
    sections: tuple[Section, ...]


@cache
def render(page: Page) -> Rendered:
    """Return the page as HTML without its frame."""
    extensions: list[str | Extension] = [TableExtension(use_align_attribute=True), "sane_lists", _GuideExtension(page)]
    html = markdown.markdown(page.source, extensions=extensions, output_format="html")
    reader = _SectionReader()
    reader.feed(html)
    return Rendered(html, reader.sections())


def search_index() -> list[dict[str, str]]:
    """Return the index of the search: every section of every page."""
    return [
        {
            "page": page.title,
            "chapter": page.chapter,
            "title": section.title,
            "url": page_url(page) + (f"#{section.anchor}" if section.level > 1 else ""),
            "text": section.text,
        }
        for page in PAGES
        for section in render(page).sections
    ]


def page_url(page: Page) -> str:
    return reverse("guide-page", args=[page.address]) if page.address else reverse("guide")


class _GuideExtension(Extension):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_CodeBlocks(md), "code_blocks", 25)  # before the processor of raw HTML, at 20
        md.treeprocessors.register(_Finish(md, self.page), "finish", 5)  # after the parser of inline text, at 20


class _CodeBlocks(Preprocessor):
    """Replaces fenced blocks before other processors read their contents."""

    def __init__(self, md: Markdown) -> None:
        super().__init__(md)
        self.stash = md.htmlStash

    def run(self, lines: list[str]) -> list[str]:
        text = _FENCED.sub(lambda match: f"\n{self.stash.store(_draw(match[1], match[2]))}\n", "\n".join(lines))
        return text.split("\n")


def _draw(language: str, code: str) -> str:
    name = escape(_NAMES.get(language, language.capitalize() or "Text"))
    kind = "answer" if language in _ANSWERS else "source"
    return (
        f'<figure class="code code-{kind}"><figcaption>{name}</figcaption>'
        f"<pre><code>{_colour(language, code)}</code></pre></figure>"
    )


def _colour(language: str, code: str) -> str:
    if language == "http":  # Pygments colours the body only if a header gives its type
        head, _, body = code.partition("\n\n")
        return _tokens("http", head + "\n") + ("\n" + _tokens("json", body) if body else "")
    return _tokens(language, code)


def _tokens(language: str, code: str) -> str:
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code, quote=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def _size_of_png(path: Path) -> tuple[int, int]:
    """Return the width and the height in pixels from the header of a PNG."""
    with path.open("rb") as file:
        width, height = struct.unpack(">16x2I", file.read(24))
    return width, height


class _Finish(Treeprocessor):
    """Adds anchors and links, resolves links between pages, and lets wide tables scroll."""

    def __init__(self, md: Markdown, page: Page) -> None:
        super().__init__(md)
        self.page = page

    def run(self, root: Element) -> None:
        self._add_anchors(root)
        for link in root.iter("a"):
            self._resolve(link)
        for image in root.iter("img"):
            path = self.page.resolve(image.get("src", ""))
            width, height = _size_of_png(FOLDER / path)  # so that the browser keeps room for it
            for name, value in (("src", static(f"guide/{path}")), ("width", width), ("height", height)):
                image.set(name, str(value))
            image.set("loading", "lazy")
        for parent in list(root.iter()):
            for index, child in enumerate(parent):
                if child.tag == "table":
                    parent[index] = wrapper = Element("div", {"class": "table"})
                    wrapper.append(child)
                elif child.tag == "code" and parent.tag != "a" and child.text in _PLACES:
                    parent[index] = link = Element("a", {"href": child.text})
                    link.append(child)
                    link.tail, child.tail = child.tail, None

    def _add_anchors(self, root: Element) -> None:
        taken: Counter[str] = Counter()
        for heading in root:
            if heading.tag not in _HEADINGS:
                continue
            slug = anchor_of("".join(heading.itertext()))
            taken[slug] += 1
            anchor = slug if taken[slug] == 1 else f"{slug}-{taken[slug] - 1}"
            heading.set("id", anchor)
            if heading.tag != "h1":
                SubElement(
                    heading, "a", {"class": "anchor", "href": f"#{anchor}", "aria-label": "Link to this section"}
                )

    def _resolve(self, link: Element) -> None:
        """Replace a link to the file of a page by its URL. A link out of the guide becomes plain text."""
        parts = urlsplit(link.get("href", ""))
        if parts.scheme or not parts.path:
            return
        page = BY_PATH.get(self.page.resolve(parts.path))
        if page is None:
            link.tag = "span"
            del link.attrib["href"]
            return
        link.set("href", page_url(page) + (f"#{parts.fragment}" if parts.fragment else ""))


def anchor_of(title: str) -> str:
    """Return the anchor of a heading as code hosts make it: `filters--headers` for `Filters & headers`."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


class _SectionReader(HTMLParser):
    """Collects the sections of a page, each with all words up to the next heading."""

    def __init__(self) -> None:
        super().__init__()
        self._sections: list[tuple[int, str, list[str], list[str]]] = []
        self._words: list[str] = []  # of the current title or text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEADINGS:
            self._words = []
            self._sections.append((int(tag[1]), dict(attrs).get("id") or "", self._words, []))

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._words = self._sections[-1][3]
        elif tag not in ("code", "strong", "em", "a", "span"):
            self._words.append(" ")

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    def sections(self) -> tuple[Section, ...]:
        return tuple(
            Section(level, anchor, "".join(title).strip(), " ".join("".join(text).split()))
            for level, anchor, title, text in self._sections
        )
