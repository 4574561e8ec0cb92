"""The examples of the README's section on OpenFeature: code of each language, and what it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.system.server import Server
from tests.test_readme import ADDRESS, section


@dataclass(frozen=True)
class Snippet:
    """One example, for the server of a test."""

    code: str
    printed: str


def snippet(language: str, server: Server) -> Snippet:
    """The example below this name in bold, changed in address and key alone, and the lines that it says it prints."""
    blocks = rf"^\*\*{re.escape(language)}\*\*.*?^```\w+\n(.*?)^```$.*?^```text\n(.*?)^```$"
    found = re.search(blocks, section("## OpenFeature"), re.DOTALL | re.MULTILINE)
    assert found, f"the README shows nothing for {language}"
    code, printed = found.groups()
    assert ADDRESS in code
    for scope in ("client", "server"):
        code = code.replace(f"hyd_{scope[0]}_...", server.keys["production"][scope])
    assert "_..." not in code
    return Snippet(code.replace(ADDRESS, server.url), printed)
