"""Whether the configuration has changed, for lists that keep up with it."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.utils import timezone

from config.models import Change


def answer_revision(request: HttpRequest) -> JsonResponse:
    """Answer the newest revision, when it was made, and what time it is, in seconds since 1970.

    It takes one query of its own.
    """
    newest = Change.objects.order_by("-revision").values_list("revision", "at").first()
    revision, at = newest or (0, None)
    return JsonResponse({"revision": revision, "at": at.timestamp() if at else 0, "now": timezone.now().timestamp()})
