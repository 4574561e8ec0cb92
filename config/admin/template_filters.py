"""The filters that every template has: points in time, and links to the pages of an application's users.

A point in time is an element that shows the time zone of the setting, with UTC in its tooltip. The script
`local_times.js` adds the reader's own time zone to both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from django.template import Library
from django.urls import reverse
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from config.change_log.named_users import split_at_users, users_in
from config.timestamps import format_timestamp

register = Library()


@register.filter
def minute(time: datetime | None) -> SafeString:
    """Return `25 Nov 2026, 15:03`."""
    return _element(time, "j M Y, H:i")


@register.filter
def second(time: datetime | None) -> SafeString:
    """Return `25 Nov 2026, 15:03:21 UTC`."""
    return _element(time, "j M Y, H:i:s T")


@register.filter
def day(time: datetime | None) -> SafeString:
    """Return `25 Nov 2026`. Only the tooltip has the time."""
    return _element(time, "j M Y")


def _element(time: datetime | None, form: str) -> SafeString:
    if time is None:
        return SafeString("")
    return format_html(
        '<time class="hy-moment" datetime="{}" title="{}">{}</time>',
        format_timestamp(time),
        date_format(time.astimezone(UTC), "j M Y, H:i:s \\U\\T\\C"),
        format_local(time, form),
    )


def format_local(time: datetime, form: str) -> str:
    """Return a time in the time zone of the setting, in a format of Django's filter `date`."""
    try:
        return date_format(timezone.localtime(time), form)
    except OverflowError:  # the first and last hours of the calendar have no local time in some zones
        return date_format(time, form)


def address_of_user(user_id: str, environment: str = "") -> str:
    """Return the address of the page of a user. The id is in the query, because paths cannot have ids such as `..`.

    The page shows the current environment, and offers to switch to the one with this key.
    """
    where = f"&in={environment}" if environment else ""
    return f"{reverse('admin:experiments_experiment_user')}?id={quote(user_id, safe='')}{where}"


@register.filter
def link_to_user(user_id: str) -> SafeString:
    return format_html('<a class="hy-user" href="{}">{}</a>', address_of_user(user_id), user_id)


_LINK = '<a class="hy-named" href="{}">{}</a>'
_LINK_ASIDE = '<a class="hy-named" href="{}" target="_blank">{}</a>'
_BRIEF_LINK = '<a href="{}">{}</a>'


@register.filter
def link_users(words: str, environment: str = "") -> SafeString:
    """Return words with a link for each user that they name. All other text is escaped.

    `environment` is the key of the environment that the words are about, or empty for the current one or all.
    """
    return _linked(words, environment, _LINK)


@register.filter
def link_users_aside(words: str) -> SafeString:
    """Return the same with links that open a new tab, so that input on the page is not lost."""
    return _linked(words, "", _LINK_ASIDE)


def link_users_briefly(words: str, environment: str) -> SafeString:
    """Return the same with shorter HTML, for lists with very many links."""
    return _linked(words, environment, _BRIEF_LINK)


def _linked(words: str, environment: str, link: str) -> SafeString:
    if not users_in(words):
        return conditional_escape(words)
    parts = (
        text if user_id is None else format_html(link, address_of_user(user_id, environment), text)
        for text, user_id in split_at_users(words)
    )
    return format_html_join("", "{}", ((part,) for part in parts))
