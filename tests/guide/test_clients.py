"""The experiment of the demo whose users the client in the browser reports: it is as the guide shows it."""

from __future__ import annotations

import pytest

from tests.guide.markdown import read_page
from tests.guide.transcripts import Step, assert_answers, read_steps, run_steps
from tests.system.server import Server


def section() -> list[Step]:
    text = read_page("openfeature/web.md").partition("\n## An experiment with users\n")[2]
    return read_steps(text.partition("The admin shows")[0])


@pytest.mark.system
def test_web_page__experiment_of_the_demo__has_the_results_that_are_printed(development_server: Server) -> None:
    assert_answers(section(), run_steps(section(), development_server))
