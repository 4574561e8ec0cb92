"""What documents and deployment files say about the service, held against its code: commands and settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from tests.system.server import ROOT

OF_PYTHON = {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
"""Variables of the environment that are not for the service, but for Python and shells."""
_PUNCTUATION = "();<>|&\n"


@cache
def setting_names() -> frozenset[str]:
    """Return the settings that are read from the environment."""
    return frozenset(re.findall(r'\benv(?:\.\w+)?\(\s*"([A-Z_]+)"', (ROOT / "config/settings.py").read_text()))


def parse_command(words: Sequence[str]) -> None:
    """Read the name and the arguments of a command of manage.py as Django does. Raises CommandError or KeyError."""
    name, *arguments = words
    app = get_commands()[name]
    command = app if isinstance(app, BaseCommand) else load_command_class(app, name)
    command.create_parser("manage.py", name).parse_args(arguments)


def commands_in(script: str) -> Iterator[list[str]]:
    """Yield the words after `manage.py` of every command in a script for a shell."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words = list(lexer)
    while "manage.py" in words:
        words = words[words.index("manage.py") + 1 :]
        yield list(takewhile(lambda word: not word or word[0] not in f"#{_PUNCTUATION}", words))
