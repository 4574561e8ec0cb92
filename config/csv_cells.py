"""Cells of CSV files. Text that a spreadsheet would take for a formula gets an apostrophe in front."""

from __future__ import annotations

import re
from typing import Any

_escapable = re.compile(r"'*[=+\-@\t\r]")
_number = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_escaped = re.compile(r"'+[=+\-@\t\r]")


def escape(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula. Numbers do not change, also as strings."""
    if not isinstance(value, str) or not _escapable.match(value) or _number.fullmatch(value):
        return value
    return f"'{value}"


def unescape(text: str) -> str:
    """Undo `escape`, so that an export can be imported."""
    return text[1:] if text[:1] == "'" and _escaped.match(text) else text
