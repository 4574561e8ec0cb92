"""Previews of an edit before it is saved: for whom the flag flips, and how many users each rule decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.utils import timezone

from config import snapshot
from config.admin.current_environment import check_environment, current_environment, environments_of
from config.admin.site import DomainAdmin
from config.admin.template_filters import address_of_user
from config.change_log.descriptions import describe_path
from config.change_log.sentences import words_of
from config.documents import is_same
from config.errors import DomainError
from flags.admin.audience_words import describe_audience, describe_changed, describe_decided, percent
from flags.changes.flag_changes import KIND
from flags.engine.types import Evaluation
from flags.models import Flag, FlagState
from flags.usage.comparison import Example
from flags.usage.previews import EditPreview, NoSample, audiences, preview_edit, preview_new
from flags.usage.sample import PERIOD

_MAX_FLAGS = 100
_MAX_PAIRS = 40_000
"""Pairs of user and flag that are evaluated for a list, in less than a second."""
_WITHOUT_KEY = "new-flag"
_DECISIVE = (
    *("enabled", "rules", "type", "variants", "default_variant", "off_variant", "schema", "prerequisites"),
    "client_visible",
)


class FlagPreviewPage(DomainAdmin):
    """Answers to the form of a flag, which asks what its edits would do."""

    def get_urls(self) -> list[Any]:
        return [
            self.route("add/preview/", self.preview_new_view, "preview_new"),
            self.route("<path:object_id>/preview/", self.preview_view, "preview"),
            self.route("audiences/", self.audiences_view, "audiences"),
            *super().get_urls(),
        ]

    def preview_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer what the form would do to recent users if it were saved."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        flag = self.find(request, object_id)
        if flag is None or not self.has_change_permission(request, flag):
            raise PermissionDenied
        return self._answer(request, flag)

    def preview_new_view(self, request: HttpRequest) -> HttpResponse:
        """Answer for which recent users a new flag would be on."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self._answer(request, None)

    def _answer(self, request: HttpRequest, flag: Flag | None) -> HttpResponse:
        snapshot.refresh()
        try:
            check_environment(request, request.POST.get("opened_in"))
            return JsonResponse(self._preview(request, flag))
        except DomainError as refusal:
            return JsonResponse(_refused(refusal))

    def _preview(self, request: HttpRequest, flag: Flag | None) -> dict[str, Any]:
        form = self.get_form(request, flag, change=flag is not None)(request.POST, instance=flag)
        form.full_clean()
        if not form.errors.keys().isdisjoint(_DECISIVE):
            return {"words": "The preview needs a form without mistakes. Save it to see them at their fields."}
        sent: Mapping[str, Any] = form.cleaned_data
        values, would = {name: sent[name] for name in _DECISIVE}, "would see something else"
        environment, now = current_environment(request), timezone.now()
        if flag is None:
            would = "would have it on" if values["enabled"] else "would have it on, once the flag is on"
            key = sent.get("key") or _WITHOUT_KEY
            found = preview_new(key=key, environment=environment, values=values, now=now)
        else:
            edited = {name: value for name, value in values.items() if not is_same(value, getattr(flag, name))}
            found = preview_edit(key=flag.key, environment=environment, changes=edited, now=now)
        if isinstance(found, NoSample):
            return {"words": found.meaning}
        preview = found.preview
        return {
            "words": describe_changed(preview, "here", now, PERIOD, would=would),
            "notes": list(_notes(found)),
            "rules": [describe_decided(preview, decided, now, PERIOD) for decided in found.decided],
            "examples": [_example(example) for example in preview.examples],
        }

    def audiences_view(self, request: HttpRequest) -> HttpResponse:
        """Answer for how many recent users the flags of a list are on, by environment.

        Flags that are off, or have no rules, are left out.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        snapshot.refresh()
        environments, now = environments_of(request), timezone.now()
        most_pairs = _MAX_PAIRS // max(1, len(environments))
        answer: dict[str, list[dict[str, str] | None]] = {}
        for index, environment in enumerate(environments):
            states = FlagState.objects.filter(environment=environment, flag__in=_ids(request), enabled=True)
            states = states.filter(flag__archived_at=None).exclude(rules=[])
            keys = {key: str(pk) for pk, key in states.values_list("flag_id", "flag__key")}
            found = audiences(environment, list(keys), now=now, most_pairs=most_pairs) if keys else NoSample.EMPTY
            if isinstance(found, NoSample):
                continue
            for key, number in found.on.items():
                share = percent(number / len(found.sample.users))
                shown = {"share": share, "words": describe_audience(number, found.sample, now, PERIOD)}
                answer.setdefault(keys[key], [None] * len(environments))[index] = shown
        return JsonResponse(answer)


def _ids(request: HttpRequest) -> list[UUID]:
    """Return the ids of flags in a list. Other texts are ignored."""
    ids = []
    for text in request.GET.getlist("flag")[:_MAX_FLAGS]:
        with suppress(ValueError):
            ids.append(UUID(text))
    return ids


def _refused(refusal: DomainError) -> dict[str, Any]:
    why = refusal.message
    if refusal.details:
        place = describe_path(refusal.details[0].field, words_of(KIND))
        why = f"{place[:1].upper()}{place[1:]}: {refusal.details[0].message}"
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
