"""The tour of the guide: one shell session over its pages, which covers every operation of the API."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern

from config.api.document import PATHS, TAGS
from config.guide.pages import CHAPTERS, PAGES
from config.urls import urlpatterns
from tests.guide.markdown import code_blocks, read_page
from tests.guide.transcripts import ADDRESS, Step, assert_answers, read_steps, run_steps
from tests.openapi import document
from tests.system.server import Server

[TOUR] = [chapter.paths for chapter in CHAPTERS if chapter.paths[0].startswith("tour/")]


def tour() -> list[Step]:
    return [step for path in TOUR for step in read_steps(read_page(path))]


@pytest.mark.system
def test_tour__on_a_development_server__answers_what_is_printed(development_server: Server) -> None:
    assert_answers(tour(), run_steps(tour(), development_server))


def calls() -> Iterator[tuple[str, str]]:
    """Yield the method and the path of each call of the tour."""
    for step in tour():
        for call in re.findall(rf"curl .*?{ADDRESS}[^\n]*", step.commands):
            path = re.search(rf"{ADDRESS}(/(?:ofrep/)?v1/[^\s'?]*)", call)[1]
            sent = re.search(r"-X (\w+)", call)
            yield (sent[1] if sent else "POST" if " -d " in call or " -d " in step.commands else "GET", path)


def test_reference__paths__are_in_the_order_of_the_tour() -> None:
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in PATHS}
    shown = dict.fromkeys(known for _, path in calls() for known in PATHS if patterns[known].fullmatch(path))
    tags = {path: next(iter(methods.values()))["tags"][0] for path, methods in document()["paths"].items()}
    assert list(dict.fromkeys(tags[path] for path in shown if tags[path] != "Audit")) == [*TAGS][:-1]
    assert [tag["name"] for tag in document()["tags"]] == [*TAGS]
    for tag in TAGS:
        in_tour = [path for path in shown if tags[path] == tag]
        assert [path for path in document()["paths"] if tags[path] == tag] == in_tour, tag


def test_introduction__links__lead_to_pages_of_the_guide() -> None:
    addresses = re.findall(r"\]\((/[^)#]*)", document()["info"]["description"])
    assert addresses
    assert set(addresses) <= {f"/guide/{page.address}".rstrip("/") for page in PAGES}


@pytest.mark.system
def test_introduction__first_call__answers_what_is_printed(development_server: Server) -> None:
    (_, command), (form, answer), *_ = code_blocks(document()["info"]["description"])
    steps = [Step(command, form, answer)]
    assert_answers(steps, run_steps(steps, development_server))


def test_tour__operations__are_all_in_it() -> None:
    called = set(calls())
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
TESTED_BY_AN_OPERATOR = ("production.md", "monitoring.md", "upgrading.md", "backup.md", "troubleshooting.md")
"""The pages whose commands `test_production.py` runs."""


def test_curl__blocks_outside_the_tour__are_run_by_other_tests() -> None:
    known = (*TOUR, *TESTED_WITH_CLIENTS, *TESTED_BY_AN_OPERATOR)
    assert [page.path for page in PAGES if page.path not in known and "curl -" in page.source] == []
