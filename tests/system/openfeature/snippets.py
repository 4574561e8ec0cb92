"""The examples of the guide's pages on OpenFeature: their code, its output, and the commands around it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.guide.markdown import code_blocks, read_page
from tests.guide.transcripts import ADDRESS
from tests.system.server import Server


@dataclass(frozen=True)
class Snippet:
    """One example, for the server of a test."""

    code: str
    printed: str


def snippet(page: str, server: Server) -> Snippet:
    """Return the example of a page, changed in address and key alone, and the lines that it says it
    prints.
    """
    *_, (_, code), (form, printed) = code_blocks(read_page(f"openfeature/{page}.md"))
    assert form == "text"
    return Snippet(_adapted(code, server), printed)


def _adapted(code: str, server: Server) -> str:
    assert ADDRESS in code
    for scope in ("client", "server"):
        code = code.replace(f"hyd_{scope[0]}_...", server.keys["production"][scope])
    assert "_..." not in code
    return code.replace(ADDRESS, server.url)


@dataclass(frozen=True)
class Experiment:
    """The example of an experiment that is counted: how it is created, the code, and how its results are read."""

    create: str
    example: Snippet
    read: str
    results: str


def experiment(page: str, server: Server) -> Experiment:
    """Return the example of Halyard's own provider: the first code after the commands that start its experiment."""
    blocks = code_blocks(read_page(f"openfeature/{page}.md"))
    [start] = [position for position, (_, text) in enumerate(blocks) if "/start\n" in text]
    printed = next(position for position in range(start, len(blocks)) if blocks[position][0] == "text")
    create, code, text, read, results = (blocks[at][1] for at in (start, start + 1, printed, printed + 1, printed + 2))
    return Experiment(_adapted(create, server), Snippet(_adapted(code, server), text), _adapted(read, server), results)


def experiment_commands(page: str, server: Server) -> str:
    """Return the commands of a page that create an experiment and start it."""
    [found] = [text for _, text in code_blocks(read_page(f"openfeature/{page}.md")) if "/start\n" in text]
    return _adapted(found, server)


def answered_command(page: str, beginning: str) -> tuple[str, str]:
    """Return the only command of a page that begins so, and what the page says it prints."""
    blocks = [text for _, text in code_blocks(read_page(f"openfeature/{page}.md"))]
    [position] = [position for position, text in enumerate(blocks) if text.startswith(beginning)]
    return blocks[position], blocks[position + 1]


def prints_as_the_page_says(page: str, beginning: str, addresses: Mapping[str, str]) -> bool:
    """Return whether a command prints what its page says, where the addresses of the page are others."""
    commands, printed = answered_command(page, beginning)
    for address, other in addresses.items():
        commands = commands.replace(address, other)
    return run_commands(commands).split() == printed.split()


def files(page: str, server: Server) -> dict[str, str]:
    """Return the blocks whose first line is a comment that names a file, by these names."""
    blocks = [text for _, text in code_blocks(read_page(f"openfeature/{page}.md"))]
    named = [
        (found[1], text) for text in blocks if (found := re.match(r"(?://|#|<!--) ([\w./-]+\.\w+)(?: -->)?\n", text))
    ]
    return {name: _adapted(code, server) if ADDRESS in code else code for name, code in named}


def command(page: str, beginning: str) -> str:
    """Return the only command of a page that begins so."""
    [found] = [text for _, text in code_blocks(read_page(f"openfeature/{page}.md")) if text.startswith(beginning)]
    return found


def run_commands(commands: str, folder: Path | None = None) -> str:
    """Return what commands of the guide print in a shell, in a folder."""
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "-euc", commands], cwd=folder, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
