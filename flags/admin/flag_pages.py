"""Pages of a flag besides its form: switching it in the list, archiving, restoring, and going back to what it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path

from config.admin.current_environment import check_environment, current_environment
from config.admin.site import Confirmation, DomainAdmin, button, reason_of, writer_here
from config.change_log.descriptions import ToldChange, describe
from config.change_log.history import concerning
from config.errors import DomainError
from config.models import Change
from flags.changes import flag_changes
from flags.changes.driven_rules import keeping
from flags.models import Flag
from flags.words.rules import rules_in_words

_MOST_CONSEQUENCES = 12


class FlagPages(DomainAdmin):
    """What can be done to a flag without its form, each as one call of the domain."""

    def get_urls(self) -> list[Any]:
        own = (("toggle/", self.toggle_view, "toggle"), ("revert/<int:revision>/", self.revert_view, "revert"))
        urls = [
            path(f"<path:object_id>/{route}", self.admin_site.admin_view(view), name=f"flags_flag_{name}")
            for route, view, name in own
        ]
        return [*urls, *super().get_urls()]

    # on and off

    def toggle_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Switch to the state that the button named: whoever presses it twice does not switch back."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        opened_in, _, wanted = request.POST.get("switch", "").partition(":")
        if wanted not in ("on", "off"):
            return HttpResponseBadRequest("The button says neither on nor off.")
        self._switch(request, [flag], opened_in, wanted)
        query = request.GET.urlencode()
        return HttpResponseRedirect(self.address_of("changelist") + (f"?{query}" if query else ""))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Switching all that are selected. The names tell the environment, for the page may have become an old one."""
        if not self.has_change_permission(request):
            return {}
        here = current_environment(request)
        name = here.name.replace("%", "%%")
        return {
            f"{here.key}:{wanted}": (self._switch_selected, f"{here.key}:{wanted}", f"Switch {wanted} in {name}")
            for wanted in ("on", "off")
        }

    @staticmethod
    def _switch_selected(model_admin: FlagPages, request: HttpRequest, flags: Any) -> None:
        opened_in, _, wanted = request.POST["action"].partition(":")
        model_admin._switch(request, flags, opened_in, wanted)

    def response_action(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        try:
            check_environment(request, request.POST.get("action", "").partition(":")[0])
        except DomainError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(request.get_full_path())
        answer: HttpResponse | None = super().response_action(request, queryset)
        return answer

    def _switch(self, request: HttpRequest, flags: Any, opened_in: str, wanted: str) -> None:
        """Switch each flag in a transaction of its own; say what became of them."""
        keys = []
        for flag in flags:
            try:
                check_environment(request, opened_in)
                flag_changes.update_flag(key=flag.key, changes={"enabled": wanted == "on"}, **writer_here(request))
            except DomainError as refusal:
                messages.error(request, refusal.message)
            else:
                keys.append(flag.key)
        if keys:
            what = f"{keys[0]} is" if len(keys) == 1 else f"{len(keys)} flags are"
            messages.success(request, f"{what} {wanted} in {current_environment(request).name}.")

    # the archive

    @button("Archive", permission="change", icon="archive")
    def archive(self, request: HttpRequest, object_id: str) -> HttpResponse:
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Archive {flag.key}?",
            (
                "From now on it is off for everyone, in every environment.",
                "It leaves the lists. Its rules, values and history stay as they are.",
                "You can restore it at any time.",
            ),
            "Archive the flag",
        )
        act = partial(self._move, request, flag, flag_changes.archive_flag)
        return self.confirm(request, flag, confirmation, act, f"{flag.key} is archived.")

    @button("Restore", permission="change", icon="unarchive")
    def restore(self, request: HttpRequest, object_id: str) -> HttpResponse:
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        state = "on" if flag.enabled else "off"
        confirmation = Confirmation(
            f"Restore {flag.key}?",
            (
                "It comes back as it was when it was archived, in every environment.",
                f"Here, in {current_environment(request).name}, it will be {state}.",
            ),
            "Restore the flag",
            is_dangerous=False,
        )
        act = partial(self._move, request, flag, flag_changes.restore_flag)
        return self.confirm(request, flag, confirmation, act, f"{flag.key} is restored.")

    def _move(self, request: HttpRequest, flag: Flag, move: Callable[..., object], **options: Any) -> None:
        move(key=flag.key, reason=reason_of(request), **options, **writer_here(request))

    # history

    def told(self, request: HttpRequest, obj: Flag, change: Change) -> ToldChange:
        told = super().told(request, obj, change)
        is_of_here = change.environment in ("", current_environment(request).key)
        # After the last one that concerned this environment it is what it is now.
        is_past = change.after is not None and change.revision < obj.version
        if not (is_of_here and is_past and self.has_change_permission(request)):
            return told
        return replace(told, revert_address=self.address_of("revert", obj.pk, change.revision))

    def revert_view(self, request: HttpRequest, object_id: str, revision: int) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Make {flag.key} what it was after revision {revision}?",
            self._consequences(request, flag, revision),
            "Revert",
            is_dangerous=False,
        )
        act = partial(self._move, request, flag, flag_changes.revert_flag, revision=revision)
        return self.confirm(request, flag, confirmation, act, f"{flag.key} is what it was after revision {revision}.")

    def _consequences(self, request: HttpRequest, flag: Flag, revision: int) -> list[str]:
        """What would be different here: states of other environments, and the archive, are left as they are."""
        here = current_environment(request).key
        then = concerning(self.history_of(flag), here).filter(revision=revision).first()
        if then is None or then.after is None:
            return ["The history of this flag has no such revision here."]
        now, back = (_seen_from(here, document) for document in (flag_changes.document(flag), then.after))
        back["rules"] = keeping(now["rules"], back["rules"])
        lines = describe(now, back, rules_in_words)
        more = len(lines) - _MOST_CONSEQUENCES
        shown = [*lines[:_MOST_CONSEQUENCES], f"and {more} more differences"] if more > 0 else lines
        return shown or ["Nothing would change: it is so now."]


def _seen_from(environment_key: str, document: dict[str, Any]) -> dict[str, Any]:
    common = {name: value for name, value in document.items() if name not in ("states", "archivedAt")}
    return {**common, **document["states"].get(environment_key, {"enabled": False, "rules": []})}
