"""Semantic versions, as far as comparing them goes.

Source: Semantic Versioning 2.0.0, section 11. Besides, `2` and `2.1` stand for `2.0.0` and `2.1.0`, and a leading `v`
is passed over, since clients write their versions so.
"""

from __future__ import annotations

import re

Precedence = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]

_LONGEST = 256
_NUMBER = r"(?:0|[1-9]\d{0,17})"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_version = re.compile(
    rf"v?({_NUMBER})(?:\.({_NUMBER}))?(?:\.({_NUMBER}))?"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def precedence(text: str) -> Precedence | None:
    """Return what orders versions as they are meant to be ordered, or None where the text is no version."""
    found = _version.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    major, minor, patch, prerelease = found.groups()
    identifiers = tuple(map(_identifier, prerelease.split("."))) if prerelease else ()
    # A release comes after all its pre-releases.
    return int(major), int(minor or 0), int(patch or 0), prerelease is None, identifiers


def _identifier(text: str) -> tuple[bool, int, str]:
    # Numbers come before words and by their size, which is that of their text: longer ones are larger.
    return (False, len(text), text) if text.isdecimal() else (True, 0, text)
