"""The examples of the guide's pages on OpenFeature: the code of each language, and its output."""

from __future__ import annotations

from dataclasses import dataclass

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
    assert ADDRESS in code
    for scope in ("client", "server"):
        code = code.replace(f"hyd_{scope[0]}_...", server.keys["production"][scope])
    assert "_..." not in code
    return Snippet(code.replace(ADDRESS, server.url), printed)
