"""Messages about a write: each leads to the change, and offers to undo it, or says why it cannot be undone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, cast

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.html import format_html

from config.change_log.undoing import steps, undos, way_of, write_of
from config.models import Change


class AnnouncesWrites:
    """A mixin for pages whose writes are in the change log."""

    kind: ClassVar[str]
    admin_site: AdminSite

    def succeed(self, request: HttpRequest, text: str, kinds: Collection[str] = ()) -> None:
        """Show a message about what the request has written, of these kinds or that of the page."""
        tag, why_not = self._after_write(request, kinds)
        messages.success(request, f"{text} {why_not}".rstrip(), extra_tags=tag)

    def message_user(
        self,
        request: HttpRequest,
        message: Any,
        level: int | str = messages.INFO,
        extra_tags: str = "",
        fail_silently: bool = False,
    ) -> None:
        if level == messages.SUCCESS and not extra_tags:
            extra_tags, why_not = self._after_write(request)
            message = format_html("{} {}", message, why_not) if why_not else message
        cast(Any, super()).message_user(request, message, level, extra_tags, fail_silently)

    def _after_write(self, request: HttpRequest, kinds: Collection[str] = ()) -> tuple[str, str]:
        """Return the tag of a message about a write, and why the write cannot be undone, if it cannot.

        The tag is `undo-12` for a write that this person can undo, `change-12` for another one, and empty without a
        write. A write is read for kinds with steps only.
        """
        written = writes_of(request)
        if not written:
            return "", ""
        revision, kinds = written[-1], kinds or (self.kind,)
        if steps.keys().isdisjoint(kinds):
            return f"{'undo' if undos.keys() >= {*kinds} else 'change'}-{revision}", ""
        changes = write_of(revision)
        way, log = way_of(changes), cast(Any, self.admin_site.get_model_admin(Change))
        if way.undo is None:
            return f"change-{revision}", way.why_not
        return f"{'undo' if log.may_undo_all(request, changes) else 'change'}-{revision}", ""


def writes_of(request: HttpRequest) -> Sequence[int]:
    """Return the number of the first change of each write that this request has made."""
    return getattr(getattr(request, "actor", None), "writes", None) or ()
