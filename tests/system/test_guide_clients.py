"""The guide's pages on clients without a package of Halyard, or with more than one: their examples do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flags.clients.wheel import SOURCES as CLIENT
from tests.guide.markdown import read_page
from tests.guide.transcripts import Step, assert_answers, read_steps, run_steps
from tests.system.openfeature.flags import serving_flags
from tests.system.openfeature.snippets import experiment, run_commands
from tests.system.server import ROOT, Keys, Server

pytestmark = [pytest.mark.system, pytest.mark.once]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    with serving_flags(tmp_path_factory.mktemp("server"), demo, ANONYMOUS_SCOPE="manage") as running:
        yield running


def calls_of_an_app() -> list[Step]:
    return read_steps(read_page("openfeature/mobile.md").partition("\n## In Kotlin\n")[0])


def test_mobile__calls_of_an_app__are_answered_as_the_page_says(server: Server) -> None:
    assert_answers(calls_of_an_app(), run_steps(calls_of_an_app(), server))


def test_telemetry__example__prints_the_attributes_and_is_counted(server: Server) -> None:
    page = experiment("telemetry", server)
    run_commands(page.create)
    done = subprocess.run(
        [sys.executable, "-c", page.example.code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, without_version(done.stdout)) == (0, without_version(page.example.printed)), done.stderr
    assert run_commands(page.read) == page.results


def without_version(printed: str) -> str:
    """Each database has its own revisions."""
    shortened, count = re.subn(r"(?<=feature_flag\.version: )\d+", "<revision>", printed)
    assert count == 1
    return shortened
