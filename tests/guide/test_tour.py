"""The tour of the guide: one shell session over its pages, which covers every operation of the API."""

from __future__ import annotations

import re

import pytest
from django.urls import URLPattern

from config.guide.pages import CHAPTERS, PAGES
from config.urls import urlpatterns
from tests.guide.markdown import read_page
from tests.guide.transcripts import ADDRESS, Step, assert_answers, read_steps, run_steps
from tests.system.server import Server

[TOUR] = [chapter.paths for chapter in CHAPTERS if chapter.paths[0].startswith("tour/")]


def tour() -> list[Step]:
    return [step for path in TOUR for step in read_steps(read_page(path))]


@pytest.mark.system
def test_tour__on_a_development_server__answers_what_is_printed(development_server: Server) -> None:
    assert_answers(tour(), run_steps(tour(), development_server))


def test_tour__operations__are_all_in_it() -> None:
    called = set()
    for step in tour():
        for call in re.findall(rf"curl .*?{ADDRESS}[^\n]*", step.commands):
            path = re.search(rf"{ADDRESS}(/(?:ofrep/)?v1/[^\s'?]*)", call)[1]
            sent = re.search(r"-X (\w+)", call)
            called.add((sent[1] if sent else "POST" if " -d " in call or " -d " in step.commands else "GET", path))
    for pattern in urlpatterns:
        route = re.sub(r"<\w+:\w+>", "[^/]+", str(pattern.pattern))
        actions = getattr(pattern.callback, "actions", {}) if isinstance(pattern, URLPattern) else {}
        for method in actions.keys() - {"head"}:  # which DRF adds where there is a get
            assert any(sent == method.upper() and re.fullmatch(f"/{route}", path) for sent, path in called), (
                f"{method} {route} is not in the tour"
            )


_PAGES_OF_CLIENTS = ("web", "react", "node", "next", "python", "mobile", "telemetry")
TESTED_WITH_CLIENTS = tuple(f"openfeature/{name}.md" for name in _PAGES_OF_CLIENTS)
"""The pages whose commands the system tests of the clients run."""


def test_curl__blocks_outside_the_tour__are_run_by_other_tests() -> None:
    known = (*TOUR, *TESTED_WITH_CLIENTS)
    assert [page.path for page in PAGES if page.path not in known and "curl -" in page.source] == []
