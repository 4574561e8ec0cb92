"""Columns of lists and the contents of their cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.decorators import display

from config.admin.template_filters import minute
from config.change_log.named_users import Words, users_in

_MAX_LETTERS = 100

Method = TypeVar("Method", bound=Callable[..., Any])


def column(
    description: str,
    *,
    ordering: str | None = None,
    empty_value: str | None = None,
    label: bool | dict[Any, str] | None = None,
) -> Callable[[Method], Method]:
    """Make a method a column of a list or a read-only field; with a `label` it is a badge."""
    decorate: Callable[[Method], Method] = display(
        description=description, ordering=ordering, empty_value=empty_value, label=label
    )
    return decorate


def in_two_lines(first: str, second: str) -> SafeString:
    """Return a name with its description below, for the first column of a list."""
    return format_html('<span class="hy-two"><strong>{}</strong><small>{}</small></span>', first, second)


def time_cell(time: datetime | None) -> SafeString | None:
    """Return a time to the minute, or None so that the column shows its `empty_value`."""
    return None if time is None else minute(time)


def brief(description: str) -> str:
    """Shorten a description for a list."""
    return Truncator(description).chars(_MAX_LETTERS)


def unbroken(words: str) -> str:
    """Keep percent signs beside their numbers, so that no line begins with one."""
    shown = words.replace(" %", "\N{NO-BREAK SPACE}%")
    return Words(shown, users) if (users := users_in(words)) else shown  # it is as long as before
