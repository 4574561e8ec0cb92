"""Fenced code blocks with syntax highlighting. `static/guide/code.css` has the colours of Pygments'
classes.
"""

from __future__ import annotations

import re
from html import escape

from markdown import Markdown
from markdown.preprocessors import Preprocessor
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMES = {"sh": "Shell", "http": "Answer", "json": "JSON", "text": "Output", "js": "JavaScript", "yaml": "YAML"}
_ANSWERS = {"http", "json", "text"}
"""Languages of output. Such a block directly below a block of code is drawn as a part of it."""


class CodeBlocks(Preprocessor):
    """Replaces fenced blocks before other processors read their contents."""

    def __init__(self, md: Markdown) -> None:
        super().__init__(md)
        self.stash = md.htmlStash

    def run(self, lines: list[str]) -> list[str]:
        text = _FENCED.sub(lambda match: f"\n{self.stash.store(_draw(match[1], match[2]))}\n", "\n".join(lines))
        return text.split("\n")


def _draw(language: str, code: str) -> str:
    name = escape(_NAMES.get(language, language.capitalize() or "Text"))
    kind = "answer" if language in _ANSWERS else "source"
    return (
        f'<figure class="code code-{kind}"><figcaption>{name}</figcaption>'
        f"<pre><code>{_colour(language, code)}</code></pre></figure>"
    )


def _colour(language: str, code: str) -> str:
    if language == "http":  # Pygments colours the body only if a header gives its type
        head, _, body = code.partition("\n\n")
        return _tokens("http", head + "\n") + ("\n" + _tokens("json", body) if body else "")
    return _tokens(language, code)


def _tokens(language: str, code: str) -> str:
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code, quote=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))
