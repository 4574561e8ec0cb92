"""Whether the configuration has changed, for lists that keep up with it."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse

from config.models import Change


def answer_revision(request: HttpRequest) -> JsonResponse:
    """Answer the newest revision and when it was made, in seconds since 1970, with one query of its own."""
    newest = Change.objects.order_by("-revision").values_list("revision", "at").first()
    revision, at = newest or (0, None)
    return JsonResponse({"revision": revision, "at": at.timestamp() if at else 0})
