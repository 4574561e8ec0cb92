"""The forms that files have, by the names that they go by."""

from __future__ import annotations

from pathlib import PurePath

FORMS = ("yaml", "json")

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}


def form_of(name: str) -> str | None:
    """The form that the name of a file tells, if it does."""
    return _SUFFIXES.get(PurePath(name).suffix.lower())
