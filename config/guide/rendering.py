"""From the Markdown of a page to HTML, its sections for the contents, and the index of the search."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, SubElement

import markdown
from django.templatetags.static import static
from django.urls import reverse
from markdown.extensions import Extension
from markdown.extensions.tables import TableExtension
from markdown.treeprocessors import Treeprocessor

from config.guide.code_blocks import CodeBlocks
from config.guide.pages import BY_PATH, PAGES, Page

_HEADINGS = ("h1", "h2", "h3", "h4")


class Section(NamedTuple):
    """A part of a page that a link can lead to. `level` is 1 for the whole page."""

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
    """Return what the search looks through: every section of every page."""
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

    def extendMarkdown(self, md: markdown.Markdown) -> None:
        md.preprocessors.register(CodeBlocks(md), "code_blocks", 25)  # before raw HTML is looked for, at 20
        md.treeprocessors.register(_Finish(md, self.page), "finish", 5)  # after the texts are parsed, at 20


class _Finish(Treeprocessor):
    """Give sections their anchors, resolve links, and let wide tables scroll by themselves."""

    def __init__(self, md: markdown.Markdown, page: Page) -> None:
        super().__init__(md)
        self.page = page

    def run(self, root: Element) -> None:
        self._add_anchors(root)
        for link in root.iter("a"):
            self._resolve(link)
        for image in root.iter("img"):
            image.set("src", static(f"guide/{self.page.resolve(image.get('src', ''))}"))
            image.set("loading", "lazy")
        for parent in list(root.iter()):
            for index, child in enumerate(parent):
                if child.tag == "table":
                    parent[index] = wrapper = Element("div", {"class": "table"})
                    wrapper.append(child)

    def _add_anchors(self, root: Element) -> None:
        """A paragraph that begins with bold words is a section named by them, as a heading would make it."""
        taken: Counter[str] = Counter()
        for block in root:
            is_lead = block.tag == "p" and not block.text and len(block) and block[0].tag == "strong"
            if not is_lead and block.tag not in _HEADINGS:
                continue
            title = block[0] if is_lead else block
            slug = anchor_of("".join(title.itertext()))
            taken[slug] += 1
            anchor = slug if taken[slug] == 1 else f"{slug}-{taken[slug] - 1}"
            block.set("id", anchor)
            if is_lead:
                block.set("class", "lead" if title.tail else "lead lead-alone")
            if block.tag != "h1":
                SubElement(title, "a", {"class": "anchor", "href": f"#{anchor}", "aria-label": "Link to this section"})

    def _resolve(self, link: Element) -> None:
        """Make the URL of a page from a link to its file. A file outside of the guide is named, but not linked."""
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
    """Return the anchor that code hosts give a heading too: `Filters & headers` becomes `filters--headers`."""
    return re.sub(r"[^\w\- ]", "", title.strip().rstrip(".").lower()).replace(" ", "-")


class _SectionReader(HTMLParser):
    """Collect the sections of a page, each with all words up to the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._heads: list[tuple[int, str]] = []
        self._titles: list[list[str]] = []
        self._texts: list[list[str]] = []
        self._level = 1
        self._title_ends_at: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        anchor = dict(attrs).get("id")
        if anchor:
            is_heading = tag in _HEADINGS
            if is_heading:
                self._level = int(tag[1])
            self._heads.append((self._level + (not is_heading), anchor))
            self._titles.append([])
            self._texts.append([])
            self._title_ends_at = tag if is_heading else "strong"

    def handle_endtag(self, tag: str) -> None:
        if tag == self._title_ends_at:
            self._title_ends_at = None
        elif self._texts and tag not in ("code", "strong", "em", "a", "span"):
            self._texts[-1].append(" ")

    def handle_data(self, data: str) -> None:
        if self._heads:
            (self._titles if self._title_ends_at else self._texts)[-1].append(data)

    def sections(self) -> tuple[Section, ...]:
        return tuple(
            Section(level, anchor, "".join(title).strip().rstrip(".:"), " ".join("".join(text).split()))
            for (level, anchor), title, text in zip(self._heads, self._titles, self._texts, strict=True)
        )
