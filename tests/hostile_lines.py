"""Texts that a form with one text a line may tear apart, and lines in double quotes. Python and the script agree."""

from __future__ import annotations

PLAIN = [
    '"ada"',
    '"',
    '""ada""',
    '"a\\',
    ' "new\\nline"',
    '"new\\nline" more',
    "new\\nline",
    " ada ",
    "a,b;c",
    "[1]",
    "null",
]
"""Lines that are the text itself, which pasted lists may have."""

QUOTED = [
    ('"new\\nline"', "new\nline"),
    ('"a\\r\\nb\\r"', "a\r\nb\r"),
    ('""', ""),
    ('"  "', "  "),
    ('"\\n"', "\n"),
    ('"\ufeff"', "\ufeff"),
    ('"\x85"', "\x85"),
    ('"\\"new\\\\nline\\""', '"new\\nline"'),
    ('"\\"\\""', '""'),
    ('"say \\"hi\\"\\nto ö 😀"', 'say "hi"\nto ö 😀'),
]
"""Lines in double quotes, and the texts that they stand for."""

HOSTILE = [
    *PLAIN,
    *(line for line, _ in QUOTED),
    *(text for _, text in QUOTED),
    "\u2028",
    "a\u2028b",
    "a\x0bb",
    "\x1c",
    "a\tb",
]
