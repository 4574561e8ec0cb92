"""Commands of a document with the answers that it prints below them: how to run them, and how to compare."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.guide.markdown import code_blocks
from tests.system.server import ROOT, Server

ADDRESS = "http://127.0.0.1:8000"
PYTHON = ".venv/bin/python"

_VARIABLE = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "<id>",
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z": "<timestamp>",
    r"cursor=[A-Za-z0-9_-]+": "cursor=<cursor>",
    r"(?<=hyd_[csm]_)[A-Za-z0-9_-]+": "<secret>",
    r'(?i:(?<=etag: ))"[\w-]+"': "<version>",
    r"(?<=http://127\.0\.0\.1:)\d+(?=/ofrep/v1/streams/)": "<port>",
    r"(?<=token=)[\w.-]+": "<token>",
    r"(?<=&revision=)\d+": "<revision>",
    r"(?i:(?<=x-revision: ))\d+": "<revision>",
    r"(?<=windows of )[\d,]+(?= of)": "<open>",
    r'(?<="revision":) ?\d+': "0",
    r'(?<="version":) ?"\d+"': '"0"',
}
"""What differs from run to run."""


@dataclass(frozen=True)
class Step:
    """A block of commands and the answer below it. The form `http` shows the status and some of the headers too."""

    commands: str
    form: str
    answer: str


def read_steps(text: str) -> list[Step]:
    """Return the steps of a text in which every block of commands is followed by its answer."""
    blocks = code_blocks(text)
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert all(form == "sh" for (form, _), _ in pairs)
    return [Step(commands, form, answer) for (_, commands), (form, answer) in pairs]


def run_steps(steps: Sequence[Step], server: Server) -> list[str]:
    """Run all commands in one shell, as a reader would, and return what each block printed."""
    script = "\n".join(f"{step.commands}\nprintf '\\0'" for step in steps)
    script = script.replace(ADDRESS, server.url).replace(PYTHON, sys.executable)
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "-euc", script],
        cwd=ROOT,
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # of a machine with much else to do
        check=True,
    )
    return done.stdout.replace(server.url, ADDRESS).split("\0")[:-1]


def assert_answers(steps: Sequence[Step], answers: Sequence[str]) -> None:
    """Compare what was printed with what the document prints, but for what differs from run to run."""
    for step, answer in zip(steps, map(_generalise, answers), strict=True):
        printed = _generalise(step.answer)
        if step.form == "json":
            assert _parse_json(answer) == _parse_json(printed), step.commands
        elif step.form == "http":
            status, headers, body = _parse_http(answer)
            expected_status, expected_headers, expected_body = _parse_http(printed)
            assert status == expected_status, step.commands
            assert {name: headers.get(name) for name in expected_headers} == expected_headers, step.commands
            assert body == expected_body, step.commands
        else:
            assert step.form == "text"
            assert answer.split() == printed.split(), step.commands


def _generalise(text: str) -> str:
    for pattern, name in _VARIABLE.items():
        text = re.sub(pattern, name, text)
    # Figures are printed to six digits; the last ones that are computed differ between machines.
    return re.sub(r"\d+\.\d{7,}(?:e-?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


def _parse_http(text: str) -> tuple[str, dict[str, str], Any]:
    """Return status line, headers by lower-case name, and the JSON of the body, if there is one."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.strip().split("\n")
    headers = dict(re.split(r":\s*", line, maxsplit=1) for line in lines)
    return status.strip(), {name.lower(): value.strip() for name, value in headers.items()}, _parse_json(body)


def _parse_json(text: str) -> Any:
    """Read JSON with numbers as they are written, so that 1 is not 1.0."""
    return json.loads(text, parse_float=str, parse_int=str) if text.strip() else None
