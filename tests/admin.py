"""Clients that are signed in to the admin, and helpers that read its pages."""

from __future__ import annotations

import html
import re
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.template.response import SimpleTemplateResponse
from django.test import Client, TestCase

from config.models import Change
from tests.factories import permissions_named

BY_SCRIPT = {"Sec-Fetch-Mode": "cors"}
"""What browsers send along when a script calls, and no page is opened."""


class AdminClient(Client):
    """A browser whose requests end as in production: commits are announced before the next request."""

    def request(self, **request: Any) -> Any:
        with TestCase.captureOnCommitCallbacks(execute=True):
            return super().request(**request)


def sign_in(*permissions: str, username: str = "ada") -> AdminClient:
    """A client of a new member of staff with permissions such as `flags.view_flag`; with none, of a
    superuser.
    """
    user = User.objects.create_user(username, is_staff=True, is_superuser=not permissions)
    if permissions:
        user.user_permissions.set(permissions_named(permissions))
    client = AdminClient()
    client.force_login(user)
    return client


def filled(client: Client, page: str, **edits: Any) -> dict[str, Any]:
    """Return what a browser sends from the form on a page after these edits, without unticked
    boxes.

    The page itself is not rendered, which would take most of the time.
    """
    with mock.patch.object(SimpleTemplateResponse, "rendered_content", b""):
        response = client.get(page)
    context = getattr(response, "context_data", None) or response.context
    form = context["adminform"].form if "adminform" in context else context["form"]
    values = {name: form[name].value() for name in form.fields} | edits
    return {name: value for name, value in values.items() if value not in (None, False)}


def hidden_fields(page: Any, form: int = 0) -> dict[str, Any]:
    """Return the hidden fields of a form of a confirmation page, or of a question, as a browser sends them."""
    body = page.content.decode()
    start = body.index("hy-confirm") - 40
    found = re.findall(r'<form method="post".*?</form>', body[start:], re.DOTALL)[form]
    sent: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found):
        sent.setdefault(html.unescape(name), []).append(html.unescape(value))
    return sent


def answer(client: Client, page: Any, form: int = 0, **typed: str) -> Any:
    """Send one of the two forms of a question: 0 agrees and 1 declines. A confirmation page has only the first."""
    return client.post(page.wsgi_request.get_full_path(), {**hidden_fields(page, form), **typed})


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def errors_of(response: Any) -> dict[str, list[str]]:
    """Return the errors of each field of the form on a page, and of the whole form as `__all__`."""
    return {name: list(errors) for name, errors in response.context["adminform"].form.errors.items()}


def text_of(response: Any) -> str:
    """Return the text of a page in one line."""
    body = re.sub(r"<(script|style).*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    body = re.sub(
        r'<a (?:class="hy-named" )?href="[^"]*/user/\?id=[^>]*>(.*?)</a>', r"\1", body
    )  # within a sentence, where a space would be wrong
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def only_change(*, after: int) -> Change:
    """The one change since a revision."""
    return Change.objects.get(revision__gt=after)


def revision() -> int:
    return Change.objects.latest_revision()
