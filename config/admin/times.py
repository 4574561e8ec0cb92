"""Filters that every template has: points in time as elements, which the script `local_times.js` completes.

Each has the time zone of the setting in its text, and the time in UTC in its tooltip. The script adds the time of the
reader's own zone to both.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.template import Library
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from config.timestamps import format_timestamp

register = Library()


@register.filter
def minute(at: datetime | None) -> SafeString:
    """Return `25 Nov 2026, 15:03`."""
    return _element(at, "j M Y, H:i")


@register.filter
def second(at: datetime | None) -> SafeString:
    """Return `25 Nov 2026, 15:03:21 UTC`."""
    return _element(at, "j M Y, H:i:s T")


@register.filter
def day(at: datetime | None) -> SafeString:
    """Return `25 Nov 2026`. Only the tooltip has the time."""
    return _element(at, "j M Y")


def _element(at: datetime | None, form: str) -> SafeString:
    if at is None:
        return SafeString("")
    return format_html(
        '<time class="hy-moment" datetime="{}" title="{}">{}</time>',
        format_timestamp(at),
        date_format(at.astimezone(UTC), "j M Y, H:i:s \\U\\T\\C"),
        format_local(at, form),
    )


def format_local(at: datetime, form: str) -> str:
    """Return a time in the time zone of the setting, in a format of Django's filter `date`."""
    try:
        return date_format(timezone.localtime(at), form)
    except OverflowError:  # the first and last hours of the calendar have no local time in some zones
        return date_format(at, form)
