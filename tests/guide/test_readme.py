"""The README is short, and true: its five calls, its targets and its links."""

from __future__ import annotations

import re

import pytest

from config.guide.pages import BY_PATH
from config.guide.rendering import anchor_of
from tests.guide.markdown import table_rows, without_code
from tests.guide.transcripts import Step, assert_answers, read_steps, run_steps
from tests.system.server import ROOT, Server

README = (ROOT / "README.md").read_text(encoding="utf-8")
CALLS = README.partition("\n## Five calls\n")[2].partition("\n## ")[0]


def calls() -> list[Step]:
    return read_steps(CALLS)


def test_readme__length__is_at_most_300_lines() -> None:
    assert len(README.splitlines()) <= 300


@pytest.mark.system
def test_calls__on_a_development_server__answer_what_is_printed(development_server: Server) -> None:
    assert_answers(calls(), run_steps(calls(), development_server))


def test_calls__five__are_all_that_curl_is_used_for() -> None:
    assert len(calls()) == 5
    assert README.count("curl -") == 5


def test_make__targets__are_in_the_table() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = [row[0] for row in table_rows(README) if row[0].startswith("`make ")]
    assert sorted(rows) == sorted(f"`make {target}`" for target in phony.split())


def test_parts__folders__are_in_the_table() -> None:
    rows = [row[0].strip("`") for row in table_rows(README) if row[0].endswith("/`") and not row[0].startswith("`/")]
    apps = {f"{manifest.parent.name}/" for manifest in ROOT.glob("*/apps.py")}
    assert set(rows) == apps | {"templates/", "tests/"}


def test_links__to_sections_and_files__lead_somewhere() -> None:
    anchors = {anchor_of(title) for title in re.findall(r"^#+ (.*)$", README, re.MULTILINE)}
    targets = re.findall(r"\]\(([^)]+)\)", without_code(README))
    assert len(targets) > 20
    for target in targets:
        assert (target[1:] in anchors) if target.startswith("#") else (ROOT / target).is_file(), target


def test_links__to_the_guide__name_pages_that_it_lists() -> None:
    pages = re.findall(r"\]\(templates/guide/([^)]+\.md)\)", README)
    assert pages
    assert set(pages) <= BY_PATH.keys()
