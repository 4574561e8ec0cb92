"""A client that leaves while it sends a form of the admin gets no answer, and leaves no traceback."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db


class Left:
    """The body of a client that has left."""

    def read(self, *_: int) -> bytes:
        raise OSError("the connection is closed")

    readline = read


def test_form__whose_client_leaves_before_its_end__fails_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    body = {"wsgi.input": Left(), "CONTENT_LENGTH": "100", "CONTENT_TYPE": "application/x-www-form-urlencoded"}
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ada"))
    response = client.post(reverse("admin:flags_segment_add"), headers={"Origin": "http://testserver"}, **body)
    assert response.status_code == 403
    assert "Traceback" not in caplog.text
