"""What an edit would do, shown before it is saved: who would flip, and how many users each rule decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.urls import path
from django.utils import timezone

from config import snapshot
from config.admin.current_environment import check_environment, current_environment
from config.admin.site import DomainAdmin
from config.admin.user_links import address_of_user
from config.documents import is_same
from config.errors import DomainError
from flags.admin.audience_words import describe_changed, describe_decided
from flags.engine.types import Evaluation
from flags.models import Flag
from flags.recent_users.positions import PERIOD
from flags.recent_users.preview import Example
from flags.recent_users.reading import EditPreview, NoSample, preview_edit

_DECISIVE = (
    *("enabled", "rules", "type", "variants", "default_variant", "off_variant", "schema", "prerequisites"),
    "client_visible",
)


class FlagPreviewPage(DomainAdmin):
    """The answers to the form of a flag that asks what its edits would do."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.preview_view)
        return [path("<path:object_id>/preview/", view, name="flags_flag_preview"), *super().get_urls()]

    def preview_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer what the form, as it is sent, would do to recent users. Nothing is written."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        flag = self.find(request, object_id)
        if flag is None or not self.has_change_permission(request, flag):
            raise PermissionDenied
        snapshot.refresh()
        try:
            check_environment(request, request.POST.get("opened_in"))
            return JsonResponse(self._preview(request, flag))
        except DomainError as refusal:
            return JsonResponse(_refused(refusal))

    def _preview(self, request: HttpRequest, flag: Flag) -> dict[str, Any]:
        form = self.get_form(request, flag, change=True)(request.POST, instance=flag)
        form.full_clean()
        if not form.errors.keys().isdisjoint(_DECISIVE):
            return {"words": "The preview needs a form without mistakes. Save it to see them at their fields."}
        sent: Mapping[str, Any] = form.cleaned_data
        edited = {name: sent[name] for name in _DECISIVE if not is_same(sent[name], getattr(flag, name))}
        environment, now = current_environment(request), timezone.now()
        found = preview_edit(key=flag.key, environment=environment, changes=edited, at=now)
        if isinstance(found, NoSample):
            return {"words": found.meaning}
        preview = found.preview
        return {
            "words": describe_changed(preview, "here", now, PERIOD, would="would"),
            "notes": list(_notes(found)),
            "rules": [describe_decided(preview, decided, now, PERIOD) for decided in found.decided],
            "examples": [_example(example) for example in preview.examples],
        }


def _refused(refusal: DomainError) -> dict[str, Any]:
    why = f"{refusal.details[0].field}: {refusal.details[0].message}" if refusal.details else refusal.message
    return {"words": f"There is no preview of this edit. {why}"}


def _notes(found: EditPreview) -> Sequence[str]:
    preview, notes = found.preview, []
    if preview.users < found.whole:
        notes.append(f"Computed from {preview.users:,} of {found.whole:,} users, because these rules take long.")
    if names := preview.unknown_attributes:
        what = f"the attribute {names[0]}" if len(names) == 1 else f"the attributes {', '.join(names)}"
        notes.append(f"No recent user is known to have {what}. It is kept from the time on when a rule reads it.")
    return notes


def _example(example: Example) -> dict[str, str]:
    return {
        "user": example.user_id,
        "address": address_of_user(example.user_id),
        "now": _seen(example.before),
        "then": _seen(example.after),
    }


def _seen(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "no flag"
    state = "on" if evaluation.enabled else "off"
    return f"{state}, {evaluation.variant}" if evaluation.variant else state
