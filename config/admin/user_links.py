"""Links from the id of an application's user to the page that shows what is known of this user."""

from __future__ import annotations

from urllib.parse import quote

from django.template import Library
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = Library()
"""A filter that every template has."""


def address_of_user(user_id: str) -> str:
    """Return the address of the page. The id is in the query, because paths cannot carry ids such as `..`."""
    return f"{reverse('admin:experiments_experiment_user')}?id={quote(user_id, safe='')}"


@register.filter
def link_to_user(user_id: str) -> SafeString:
    return format_html('<a class="hy-user" href="{}">{}</a>', address_of_user(user_id), user_id)
