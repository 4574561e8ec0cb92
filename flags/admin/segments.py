"""Segments in the admin, with the rules that use them. All environments share them."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from config import snapshot as system
from config.admin.columns import brief, column, in_two_lines, time_cell
from config.admin.reasons import reason_of
from config.admin.reverts import RevertPages
from config.admin.site import Confirmation, writer
from config.admin.template_filters import link_users
from config.documents import Document, is_same
from flags import snapshot
from flags.admin.edits import ask_before_saving_segment
from flags.admin.forms import SegmentForm
from flags.changes import segment_changes
from flags.changes.reversion import revert_segment
from flags.explanations.rule_words import describe_members, operator_choices
from flags.models import FlagState, Segment
from flags.validation.parsing import references

_WRITTEN = ("description", "conditions", "user_ids")


class SegmentAdmin(RevertPages):
    kind = segment_changes.KIND
    has_long_documents = True
    form = SegmentForm
    list_display = ("shown_key", "shown_members", "shown_update")
    search_fields = ("key", "description")
    search_help_text = "Key or description"
    ordering = ("key",)
    change_form_outer_before_template = "admin/flags/segment/used.html"
    change_form_after_template = "admin/flags/known.html"

    # the list

    def for_list(self, queryset: Any) -> Any:
        return queryset.without_members()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        system.refresh()  # the list reads the numbers of users from it
        answer: HttpResponse = super().changelist_view(request, extra_context)
        return answer

    @column("Segment", ordering="key")
    def shown_key(self, segment: Segment) -> SafeString:
        return in_two_lines(segment.key, brief(segment.description))

    @column("Users")
    def shown_members(self, segment: Segment) -> SafeString:
        if "user_ids" not in segment.get_deferred_fields():
            return link_users(describe_members(segment.conditions, len(segment.user_ids)))
        if (compiled := snapshot.configuration("").segments.get(segment.key)) is None:
            return SafeString("")
        return link_users(describe_members(compiled.source.get("conditions", ()), len(compiled.user_ids)))

    @column("Updated", ordering="updated_at")
    def shown_update(self, segment: Segment) -> SafeString | None:
        return time_cell(segment.updated_at)

    # the form

    def changeform_view(self, request: HttpRequest, *arguments: Any, **options: Any) -> Any:
        if request.method == "POST":
            system.refresh()  # for the question, before the transaction begins
        return super().changeform_view(request, *arguments, **options)

    def get_fieldsets(self, request: HttpRequest, obj: Segment | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["key", "description", "shown_members", "shown_update"]})]
        return [(None, {"fields": ["key", "description", "conditions", "user_ids", "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Segment | None = None) -> Any:
        return [] if obj is None else ["key"]

    def loaded(self, request: HttpRequest, obj: Segment | None) -> dict[str, Any]:
        initial = super().loaded(request, obj)
        return initial if obj is None else {**initial, "version": obj.etag}

    def form_context(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        return {
            "uses": partial(_uses, object_id),
            "known_segments": partial(_other_segments, object_id),
            "operator_choices": operator_choices,
        }

    # the domain

    def write(self, request: HttpRequest, obj: Segment, values: dict[str, Any], *, is_new: bool) -> Segment:
        new = {name: values[name] for name in _WRITTEN}
        common = {"reason": values["reason"], **writer(request)}
        if is_new:
            return segment_changes.create_segment(key=values["key"], **new, **common)
        with transaction.atomic():  # a question rolls back the valid change
            segment = self.rewrite(request, obj, values)
            ask_before_saving_segment(self, request, segment_changes.segment_as_json(segment))
        return segment

    def rewrite(self, request: HttpRequest, obj: Segment, values: dict[str, Any]) -> Segment:
        new = {name: values[name] for name in _WRITTEN}
        common = {"reason": values["reason"], **writer(request)}
        edited = {name: value for name, value in new.items() if not is_same(value, getattr(obj, name))}
        return segment_changes.update_segment(key=obj.key, changes=edited, if_match=values["version"], **common)

    def document_of(self, request: HttpRequest, obj: Segment) -> Document:
        return segment_changes.segment_as_json(obj)

    def remove(self, request: HttpRequest, obj: Segment, reason: str) -> None:
        segment_changes.delete_segment(key=obj.key, reason=reason, **writer(request))

    def whole_document(self, obj: Segment) -> Document:
        return segment_changes.segment_as_json(obj)

    def revert(self, request: HttpRequest, obj: Segment, revision: int) -> None:
        revert_segment(key=obj.key, revision=revision, reason=reason_of(request), **writer(request))

    def deletion(self, request: HttpRequest, obj: Segment) -> Confirmation:
        return Confirmation(
            f"Delete {obj.key}?",
            (
                "The segment is deleted in every environment.",
                "You cannot delete a segment that a rule or another segment uses.",
                "Its history stays in the change log.",
            ),
            "Delete the segment",
        )


def _uses(segment_id: Any) -> dict[str, Any]:
    """Return the users of a segment: rules of flags by environment, and other segments."""
    segment = Segment.objects.without_members().filter(pk=segment_id).first()
    if segment is None:
        return {}
    states = FlagState.objects.naming(segment.key).select_related("flag", "environment").order_by("flag__key")
    others = Segment.objects.naming(segment.key).exclude(pk=segment_id).defer("user_ids")
    return {
        "states": [state for state in states if _names(segment.key, {"rules": state.rules})],
        "segments": [other for other in others if _names(segment.key, {"conditions": other.conditions})],
    }


def _names(key: str, document: dict[str, Any]) -> bool:
    return any(named.kind == segment_changes.KIND and named.key == key for named in references(document))


def _other_segments(segment_id: Any) -> list[str]:
    others = Segment.objects.exclude(pk=segment_id) if segment_id else Segment.objects.all()
    return list(others.values_list("key", flat=True))
