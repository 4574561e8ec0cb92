"""The list of the guide's pages: it is complete, and every link between them leads somewhere."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from config.guide.pages import BY_ADDRESS, BY_PATH, FOLDER, PAGES, Page, neighbours
from config.guide.rendering import render
from tests.guide.markdown import without_code


def test_pages__files_of_the_folder__are_each_listed_once() -> None:
    listed = Counter(page.path for page in PAGES)
    assert listed == dict.fromkeys((file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.md")), 1)
    assert len(BY_ADDRESS) == len(PAGES)


def test_neighbours__first_and_last__have_one_each() -> None:
    assert neighbours(PAGES[0]) == (None, PAGES[1])
    assert neighbours(PAGES[-1]) == (PAGES[-2], None)


def test_pages__each__has_one_title_and_leads_to_what_there_is(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page.path):
            check_title(page)
            check_links(page)
            check_pictures(page)


def check_title(page: Page) -> None:
    assert page.source.startswith("# ")
    assert len(re.findall(r"^# ", without_code(page.source), re.MULTILINE)) == 1
    assert page.title


def check_links(page: Page) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.source)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        file = FOLDER / page.resolve(path) if path else FOLDER / page.path
        assert file.resolve().is_relative_to(settings.BASE_DIR), target
        assert file.exists(), target
        if anchor:
            other = BY_PATH[page.resolve(path)] if path else page
            assert anchor in {section.anchor for section in render(other).sections}, target


def check_pictures(page: Page) -> None:
    for tag in re.findall(r"<img\b[^>]*>", render(page).html):
        address = re.search(r'src="/static/([^"]+)"', tag)[1]
        assert finders.find(address), address
        assert re.search(r'alt="[^"]+"', tag), tag
