"""Pages of the guide as tests read them: blocks of code and rows of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tests.system.server import ROOT

FOLDER = ROOT / "templates" / "guide"


@cache
def read_page(path: str) -> str:
    return (FOLDER / path).read_text(encoding="utf-8")


def code_blocks(text: str) -> list[tuple[str, str]]:
    """Return language and code of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def table_rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of all tables, without their headings."""
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]
