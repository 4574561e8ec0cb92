"""Conflicts of two people who edit one object: what one has saved and what the other typed, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from config.change_log.descriptions import Comparison, compare_documents
from config.documents import Document
from config.models import Change


@dataclass(frozen=True, slots=True)
class Conflict:
    """The newest change of an object, and how the object differs from what was typed.

    A form that is sent with this `version` overwrites the change.
    """

    change: Change | None
    comparisons: Sequence[Comparison]
    version: str


class ComparesVersions:
    """A mixin for forms of objects with an `etag`, which the form sends along in the field `version_field`."""

    kind: ClassVar[str]
    version_field: ClassVar[str] = "version"

    def rewrite(self, request: HttpRequest, obj: Any, values: dict[str, Any]) -> Any:
        """Write the values of a form without asking a question. The caller rolls the write back."""
        raise PermissionDenied

    def document_of(self, request: HttpRequest, obj: Any) -> Document:
        """Return the properties of an object as the change log has them."""
        raise PermissionDenied

    def find_conflict(self, request: HttpRequest, obj: Any, values: dict[str, Any]) -> Conflict:
        """Compare an object with the result of saving these values. Raises DomainError if they cannot be saved."""
        saved, made = self.document_of(request, obj), request.actor.writes  # type: ignore[attr-defined]  # ours
        before = list(made)
        try:
            with transaction.atomic():
                typed = self.document_of(request, self.rewrite(request, obj, {**values, self.version_field: obj.etag}))
                transaction.set_rollback(True)
        finally:
            made[:] = before
        comparisons = compare_documents(saved, typed, self.kind, timezone.now())
        return Conflict(Change.objects.of(self.kind, obj.pk).first(), comparisons, obj.etag)
