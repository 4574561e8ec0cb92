"""The page of a write, with a link to share, and its undo, which is offered for ten minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from config.admin.site import DomainAdmin, writer
from config.change_log.descriptions import describe_change, name_kind
from config.change_log.reversion import (
    UNDO_WITHIN,
    is_recent,
    latest_undo,
    plan_undo,
    refusal_of_undo,
    undo_write,
    write_of,
)
from config.database.outages import is_outage
from config.errors import DomainError
from config.models import KINDS, Change, Source

_CHANGES_A_PAGE = 25
_MAX_TRIED = 100
"""The undo of more changes is not tried for a page, because it blocks all other writes."""


@dataclass(frozen=True, slots=True)
class UndoOffer:
    """Until when a write can be undone, or why it cannot.

    `made` is the change that has undone this one already. `lost` says what the undo does not bring back.
    """

    until: datetime | None = None
    made: Change | None = None
    why_not: str = ""
    lost: str = ""


class WritePages(DomainAdmin):
    """Each change has the page of the write that made it, with all changes of that write."""

    def get_urls(self) -> list[Any]:
        return [self.route("<int:revision>/undo/", self.undo_view, "undo"), *super().get_urls()]

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> Any:
        change = self.find(request, object_id)
        if change is None:
            return self.missing(request, object_id)
        if request.method == "POST" or not self.has_view_permission(request, change):
            raise PermissionDenied
        rows = Change.objects.of_write(change)
        page = Paginator(rows, _CHANGES_A_PAGE).get_page(request.GET.get("p"))
        changes = list(page)
        first = changes[0] if page.number == 1 else rows[0]
        context = {
            "write": first,
            "number": page.paginator.count,
            "address": request.build_absolute_uri(self.address_of("change", first.revision)),
            "changes": [describe_change(shown) for shown in changes],
            "page": page,
            "object_address": address_of_changed(change) if page.paginator.count == 1 else None,
            "undo": self.find_undo(request, change),
            "title": describe_write(first, page.paginator.count),
        }
        return self.page(request, "admin/config/change/write.html", context)

    def undo_view(self, request: HttpRequest, revision: int) -> HttpResponse:
        """Undo a write, and return to the page with the button."""
        if request.method != "POST":  # such as after signing in again
            return HttpResponseRedirect(self.address_of("change", revision))
        changes = write_of(revision)
        if not changes:
            return self.missing(request, str(revision))
        plan = plan_undo(changes)
        if plan.undo and not self.may_undo_all(request, changes):
            raise PermissionDenied
        what = f"change of {changes[0].key} is" if len(changes) == 1 else f"{len(changes)} changes are"
        try:
            undo_write(revision, **writer(request))
        except DomainError as refusal:
            made = latest_undo(changes)
            if made and not latest_undo(write_of(made.revision)):  # such as by another press of the same button
                text = f"The {what} already undone, by change {made.revision}. Nothing was changed now."
                messages.info(request, text, extra_tags=f"change-{made.revision}")
            else:
                messages.error(request, f"{refusal.message} Nothing was changed.")
        else:
            self.succeed(request, f"The {what} undone. {plan.lost}".rstrip(), {change.kind for change in changes})
        return HttpResponseRedirect(self._page_after(request, changes))

    def find_undo(self, request: HttpRequest, change: Change) -> UndoOffer | None:
        """Return the undo of a write for this person, or None if the write is old or they may not undo it."""
        if change.source != Source.ADMIN or not is_recent([change], timezone.now()):
            return None  # such as an import of very many changes, which are not read
        changes = write_of(change.revision)
        plan = plan_undo(changes)
        if plan.undo is None:
            return UndoOffer(why_not=plan.why_not)
        if not self.may_undo_all(request, changes):
            return None
        offer, made = UndoOffer(until=change.at + UNDO_WITHIN, lost=plan.lost), latest_undo(changes)
        if made is None and len(changes) > _MAX_TRIED:
            return offer
        try:
            refusal = refusal_of_undo(change.revision, **writer(request))
        except Error as error:
            if not is_outage(error):
                raise
            return None  # the database takes no changes now, or has a long one, and the page can do without
        if refusal is None:
            return offer
        return UndoOffer(made=made, why_not=refusal.message)

    def may_undo_all(self, request: HttpRequest, changes: Sequence[Change]) -> bool:
        """Return whether the person may do the opposite of each change, except for changes that follow from others."""
        admins, led_by = admin_of_kind(), plan_undo(changes).led_by
        leading = [change for change in changes if led_by in ("", change.kind)]
        kinds = {change.object_kind for change in leading}
        return kinds <= admins.keys() and all(
            admins[change.object_kind].may_undo(request, change) for change in leading
        )

    def _page_after(self, request: HttpRequest, changes: Sequence[Change]) -> str:
        """Return the page with the button, or the list if the object may be deleted now.

        Without a list, as for accounts, it is the page of the change.
        """
        page = request.POST.get("next", "")
        is_gone = any(change.before is None for change in changes)
        if not is_gone and url_has_allowed_host_and_scheme(page, allowed_hosts=None):
            return page
        model_admin = admin_of_kind().get(changes[0].object_kind)
        return model_admin.address_of("changelist") if model_admin else self.address_of("change", changes[0].revision)


def describe_write(first: Change, number: int) -> str:
    """Return the title of a write: `Change 12: flag f` or `Change 12: 3 objects`."""
    what = f"{name_kind(first.object_kind)} {first.key}" if number == 1 else f"{number:,} objects"
    return f"Change {first.revision}: {what}"


def admin_of_kind() -> Mapping[str, DomainAdmin]:
    """Return the model admin of each kind of object in the change log."""
    admins = (page for page in admin.site._registry.values() if isinstance(page, DomainAdmin))
    return {page.kind: page for page in admins if page.kind in KINDS}


def address_of_changed(change: Change) -> str | None:
    """Return the history of the object that was changed, or None if it was deleted or has no pages."""
    model_admin = admin_of_kind().get(change.object_kind)
    try:
        return model_admin.address_of("history", change.object_id) if model_admin and change.after else None
    except NoReverseMatch:
        return None
