"""Reverting an object to an earlier revision: a button in its history, and a page that asks first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from config.admin.current_environment import current_environment
from config.admin.site import Confirmation, DomainAdmin
from config.change_log.descriptions import DescribedChange, describe_differences
from config.change_log.reversion import target_of_revert
from config.documents import Document
from config.models import Change

_MAX_CONSEQUENCES = 12


class RevertPages(DomainAdmin):
    """Pages of objects that have a `version`, the revision of their last change."""

    # what a subclass defines

    def revert(self, request: HttpRequest, obj: Any, revision: int) -> None:
        raise PermissionDenied

    def whole_document(self, obj: Any) -> Document:
        """Return an object as the change log has it."""
        raise PermissionDenied

    def shown_document(self, request: HttpRequest, document: Document) -> Document:
        """Return the part of the document that a revert changes."""
        return document

    # the pages

    def target_of_revert(self, request: HttpRequest, obj: Any, revision: int) -> Document | None:
        """Return the object as a revert would make it; None if the revision is not in its history."""
        return target_of_revert(self.kind, self.whole_document(obj), revision, current_environment(request))

    def get_urls(self) -> list[Any]:
        page = self.route("<path:object_id>/revert/<int:revision>/", self.revert_view, "revert")
        return [page, *super().get_urls()]

    def describe(self, request: HttpRequest, obj: Any, change: Change) -> DescribedChange:
        """Add the address of the revert page to changes that are not the current state."""
        described = super().describe(request, obj, change)
        is_past = change.after is not None and change.revision < obj.version
        if not (is_past and self.has_change_permission(request)):
            return described
        return replace(described, revert_address=self.address_of("revert", obj.pk, change.revision))

    def revert_view(self, request: HttpRequest, object_id: str, revision: int) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        obj = self.find(request, object_id)
        if obj is None:
            return self.missing(request, object_id)
        confirmation = self.reversion(request, obj, revision)
        done = f"{obj.key} is reverted to revision {revision}."
        return self.confirm(request, obj, confirmation, lambda: self.revert(request, obj, revision), done)

    def reversion(self, request: HttpRequest, obj: Any, revision: int) -> Confirmation:
        return Confirmation(
            f"Revert {obj.key} to revision {revision}?",
            self._consequences(request, obj, revision),
            f"Revert the {self.opts.verbose_name}",
            is_dangerous=False,
        )

    def _consequences(self, request: HttpRequest, obj: Any, revision: int) -> Sequence[str]:
        then, noun = self.target_of_revert(request, obj, revision), self.opts.verbose_name
        if then is None:
            return [f"Revision {revision} is not in the history of this {noun}{self._place(request)}."]
        now, then = (self.shown_document(request, document) for document in (self.whole_document(obj), then))
        lines = describe_differences(now, then, self.kind, timezone.now())
        more = len(lines) - _MAX_CONSEQUENCES
        shown = [*lines[:_MAX_CONSEQUENCES], f"and {more} more differences"] if more > 0 else lines
        return shown or [f"Nothing would change: the {noun} has these values now."]

    def _place(self, request: HttpRequest) -> str:
        """Return ` in Production` if a revert concerns the current environment only."""
        return f" in {current_environment(request).name}" if self.is_environmental else ""
