"""From Markdown to HTML: links, anchors, tables, code, and the sections that the contents and the search list."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from pygments.lexers import get_lexer_by_name

from config.guide.pages import PAGES, Page
from config.guide.rendering import Rendered, Section, anchor_of, render, search_index
from tests.guide.markdown import code_blocks
from tests.system.server import ROOT

CODE_CSS = (ROOT / "config/static/guide/code.css").read_text()


def rendered(source: str, path: str = "tour/flags.md") -> Rendered:
    page: Any = SimpleNamespace(source=source, path=path)
    page.resolve = lambda target: Page.resolve(page, target)
    return render.__wrapped__(page)


def test_link__of_a_page_in_a_folder__becomes_the_url_of_its_target() -> None:
    for target, url in [
        ("../errors.md", "/guide/errors"),
        ("events.md#track", "/guide/tour/events#track"),
        ("../openfeature/index.md", "/guide/openfeature"),
        ("../index.md", "/guide/"),
        ("#create", "#create"),
        ("https://openfeature.dev", "https://openfeature.dev"),
    ]:
        assert f'<a href="{url}">there</a>' in rendered(f"[there]({target})").html, (target, url)


def test_link__to_a_file_outside_of_the_guide__is_text_alone() -> None:
    assert rendered("See [LICENSE](../../LICENSE).", "index.md").html == "<p>See <span>LICENSE</span>.</p>"


def test_code__that_names_a_page_of_the_service__leads_there() -> None:
    html = rendered("See `/clients/`, but not `/clients/x` or [`/docs`](index.md).").html
    linked = '<a href="/clients/"><code>/clients/</code></a>'
    assert (
        html == f'<p>See {linked}, but not <code>/clients/x</code> or <a href="/guide/tour"><code>/docs</code></a>.</p>'
    )


def test_picture__of_the_guide__comes_from_the_static_files() -> None:
    for html in (rendered("![A](images/results.png)", "index.md").html, rendered("![A](../images/results.png)").html):
        assert 'height="1284" loading="lazy" src="/static/guide/images/results.png" width="1960"' in html


def test_sections__headings__have_levels_anchors_and_text() -> None:
    source = "# Flags\n\nAll.\n\n## `GET` & more\n\n| a | b |\n|---|---|\n| c | d |\n\n### Try\n\n```sh\ncurl x\n```\n"
    assert rendered(source).sections == (
        Section(1, "flags", "Flags", "All."),
        Section(2, "get--more", "GET & more", "a b c d"),
        Section(3, "try", "Try", "Shell curl x"),
    )


def test_sections__of_one_name__have_different_anchors() -> None:
    anchors = [section.anchor for section in rendered("# A\n\n## B\n\n## B\n\n## B\n").sections]
    assert anchors == ["a", "b", "b-1", "b-2"]


@pytest.mark.parametrize(
    ("title", "anchor"),
    [("Filters and headers", "filters-and-headers"), ("`/v1/flags`: all", "v1flags-all"), ("Größe", "größe")],
)
def test_anchor__of_a_title__is_that_of_code_hosts(title: str, anchor: str) -> None:
    assert anchor_of(title.replace("`", "")) == anchor


def test_code__in_any_form__is_escaped_and_scrolls_by_itself() -> None:
    html = rendered("```text\n<b> & `x` **y**\n```\n").html
    assert "<pre><code>&lt;b&gt; &amp; `x` **y**\n</code></pre>" in re.sub("</?span[^>]*>", "", html)
    assert '<figure class="code code-answer"><figcaption>Output</figcaption>' in html


def test_code__of_http__has_its_json_coloured_too() -> None:
    html = rendered('```http\nHTTP/1.1 200 OK\nETag: "1"\n\n{"data": null}\n```\n').html
    assert '<span class="kc">null</span>' in html
    assert re.sub("<[^>]*>", "", html).endswith('ETag: "1"\n\n{"data": null}\n')


def test_table__any__is_in_a_box_of_its_own() -> None:
    html = rendered("| a |\n|--:|\n| b |\n").html
    assert html.startswith('<div class="table"><table>')
    assert "style=" not in html


class Tags(HTMLParser):
    """Fails where tags are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_pages__each__renders_whole(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page.path):
            html, sections = render(page)
            tags = Tags()
            tags.feed(html)
            assert tags.open == []
            text = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", html, flags=re.DOTALL)
            assert not re.search(r"```|\*\*|\]\(|^\|", text, re.MULTILINE), "Markdown that was not understood"
            assert sections[0].level == 1
            assert len({section.anchor for section in sections}) == len(sections)
            assert all(section.title for section in sections)


def test_code__languages_of_the_guide__are_all_known_and_every_class_has_a_colour() -> None:
    languages = {language for page in PAGES for language, _ in code_blocks(page.source)}
    assert all(get_lexer_by_name(language) for language in languages - {"crontab"})
    used = {name for page in PAGES for name in re.findall(r'<span class="(\w+)">', render(page).html)}
    assert used <= set(re.findall(r"\.(\w+)", CODE_CSS)) - {"code"}


def test_search_index__every_section__is_in_it_with_its_url() -> None:
    index = search_index()
    assert len(index) == sum(len(render(page).sections) for page in PAGES)
    [errors] = [entry for entry in index if entry["url"] == "/guide/errors"]
    assert (errors["page"], errors["chapter"], errors["title"]) == ("Errors", "Reference", "Errors")
    assert any("precondition_failed" in entry["text"] and entry["page"] == "Errors" for entry in index)
    assert all(entry["title"] and entry["url"].startswith("/guide/") for entry in index)
