"""The actions on flags in lists and on pages: switch on or off, archive, restore and revert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect, QueryDict

from config import snapshot
from config.admin.current_environment import check_environment, current_environment, environments_of
from config.admin.kept_input import sent_input
from config.admin.questions import ask, unless_refused
from config.admin.reasons import reason_of
from config.admin.reverts import RevertPages
from config.admin.site import Confirmation, button, writer, writer_here
from config.change_log.descriptions import DescribedChange
from config.documents import Document
from config.errors import DomainError
from config.models import Change, Environment
from flags.admin.switching import (
    FlagSwitch,
    ask_before_archiving,
    ask_before_switching,
    switching_question,
    with_consequences,
)
from flags.changes import flag_changes
from flags.changes.bulk import archive_flags, switch_flags
from flags.changes.properties import in_environment
from flags.changes.reversion import revert_flag
from flags.models import Flag

_MAX_NAMED = 20


class FlagPages(RevertPages):
    """Changes of a flag without its form. Each is one call of the domain."""

    def get_urls(self) -> list[Any]:
        return [self.route("<path:object_id>/toggle/", self.toggle_view, "toggle"), *super().get_urls()]

    # on and off

    def toggle_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Switch to the state that the button names, in its environment. Pressing twice changes nothing more."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        key, _, wanted = sent_input(request).get("switch", "").partition(":")
        environment = next((each for each in environments_of(request) if each.key == key), None)
        flag = self._find_for_switch(object_id, environment or current_environment(request))
        if flag is None:
            return self.missing(request, object_id)
        if wanted in ("on", "off") and environment is not None:
            self._switch(request, [flag], environment, wanted)
        elif wanted in ("on", "off"):
            messages.error(request, "This environment does not exist. Nothing was changed.")
        elif request.method == "POST":
            return HttpResponseBadRequest("The button must name the state on or off.")
        query = request.GET.urlencode()
        return HttpResponseRedirect(self.address_of("changelist") + (f"?{query}" if query else ""))

    def _find_for_switch(self, object_id: str, environment: Environment) -> Flag | None:
        """Return a flag with its state in an environment, without columns that only its form and list show."""
        try:
            return Flag.objects.in_environment(environment).filter(pk=unquote(object_id)).first()
        except ValidationError:  # not an id
            return None

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "GET":
            self._ask_about_kept_action(request)
        answer: HttpResponse = super().changelist_view(request, extra_context)
        return answer

    def _ask_about_kept_action(self, request: HttpRequest) -> None:
        """Ask whether to complete an action on selected flags that was interrupted by signing in."""
        sent = sent_input(request)
        _, _, label = self.get_actions(request).get(sent.get("action", ""), (None, "", ""))
        if not label:
            return
        label = (label % {}).removesuffix(" …")
        ask(self, request, Confirmation(f"{label}?", _names_of_selected(sent), label, is_dangerous=False))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer actions that name the environment of the page."""
        if not self.has_change_permission(request):
            return {}
        environment = current_environment(request)
        name = environment.name.replace("%", "%%")
        archive = f"{environment.key}:archive"
        return {
            f"{environment.key}:{wanted}": (
                self._switch_selected,
                f"{environment.key}:{wanted}",
                f"Switch {wanted} in {name}",
            )
            for wanted in ("on", "off")
        } | {archive: (self._archive_selected, archive, "Archive in all environments …")}

    @staticmethod
    def _switch_selected(model_admin: FlagPages, request: HttpRequest, flags: Any) -> None:
        _, _, wanted = request.POST["action"].partition(":")
        model_admin._switch(request, flags, current_environment(request), wanted)

    def response_action(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        try:
            check_environment(request, request.POST.get("action", "").partition(":")[0])
        except DomainError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(request.get_full_path())
        answer: HttpResponse | None = super().response_action(request, queryset)
        return answer

    def _switch(self, request: HttpRequest, flags: Any, environment: Environment, wanted: str) -> None:
        """Switch these flags in one write, and report the result."""
        flags, write = list(flags), {"environment": environment, "reason": reason_of(request), **writer(request)}
        try:
            ask_before_switching(self, request, [FlagSwitch(flag, wanted == "on") for flag in flags], environment)
            if len(flags) == 1:
                flag_changes.switch_flag(key=flags[0].key, enabled=wanted == "on", **write)
            else:
                switch_flags(keys=[flag.key for flag in flags], enabled=wanted == "on", **write)
        except DomainError as refusal:
            messages.error(request, refusal.message)
            return
        if flags:
            what = f"{flags[0].key} is" if len(flags) == 1 else f"{len(flags)} flags are"
            self.succeed(request, f"{what} now {wanted} in {environment.name}.")

    @staticmethod
    def _archive_selected(model_admin: FlagPages, request: HttpRequest, flags: Any) -> None:
        """Archive the selected flags in one write, after a question."""
        flags = [flag for flag in flags if flag.archived_at is None]
        snapshot.refresh()
        try:
            by = writer_here(request)
            act = partial(archive_flags, keys=[flag.key for flag in flags], reason=reason_of(request), **by)
            check = partial(act, actor=replace(by["actor"], writes=None), is_dry_run=True)
            ask_before_archiving(model_admin, request, flags, check)
            act()
        except DomainError as refusal:
            messages.error(request, refusal.message)
            return
        what = f"{flags[0].key} is" if len(flags) == 1 else f"{len(flags) or 'All of these'} flags are"
        model_admin.succeed(request, f"{what} archived.")

    # the archive

    @button("Archive", permission="change", icon="archive")
    def archive(self, request: HttpRequest, object_id: str) -> HttpResponse:
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Archive {flag.key}?",
            (
                "The flag is off for everyone, in every environment, from now on.",
                "Lists no longer show it. Its rules, values and history are kept.",
                "You can restore it at any time.",
            ),
            "Archive the flag",
            is_everywhere=True,
        )
        if flag.archived_at is None:
            check = partial(flag_changes.require_archivable, flag, current_environment(request))
            confirmation = unless_refused(confirmation, check, f"{flag.key} cannot be archived now")
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
                "The flag gets back the state and the rules it had when it was archived, in every environment.",
                f"In {current_environment(request).name} it will be {state}.",
            ),
            "Restore the flag",
            is_dangerous=False,
            is_everywhere=True,
        )
        act = partial(self._move, request, flag, flag_changes.restore_flag)
        return self.confirm(request, flag, confirmation, act, f"{flag.key} is restored.")

    def _move(self, request: HttpRequest, flag: Flag, move: Callable[..., object], **options: Any) -> None:
        move(key=flag.key, reason=reason_of(request), **options, **writer_here(request))

    # history

    def describe(self, request: HttpRequest, obj: Flag, change: Change) -> DescribedChange:
        described = super().describe(request, obj, change)
        concerns_environment = change.environment in ("", current_environment(request).key)
        return described if concerns_environment else replace(described, revert_address="")

    def revert(self, request: HttpRequest, obj: Flag, revision: int) -> None:
        if switch := self._switch_of_revert(request, obj, revision):
            ask_before_switching(self, request, [switch])
        self._move(request, obj, revert_flag, revision=revision)

    def reversion(self, request: HttpRequest, obj: Flag, revision: int) -> Confirmation:
        """Put the question about switching on the page of the revert, so that nobody is asked twice."""
        snapshot.refresh()
        confirmation, switch = super().reversion(request, obj, revision), self._switch_of_revert(request, obj, revision)
        question = switching_question(self, request, [switch]) if switch else None
        if question is None or switch is None:
            return confirmation
        question = with_consequences(self, request, question, [switch])
        consequences = [*confirmation.consequences, *question.consequences]
        return replace(confirmation, consequences=consequences, subjects=question.subjects)

    def _switch_of_revert(self, request: HttpRequest, obj: Flag, revision: int) -> FlagSwitch | None:
        then = self.target_of_revert(request, obj, revision)
        if then is None:
            return None
        after = in_environment(then, current_environment(request).key)
        return FlagSwitch(obj, after["enabled"], after)

    def whole_document(self, obj: Flag) -> Document:
        return flag_changes.flag_as_json(obj)

    def shown_document(self, request: HttpRequest, as_json: Document) -> Document:
        return with_state(current_environment(request).key, as_json)


def _names_of_selected(sent: QueryDict) -> list[str]:
    """Return the keys of the selected flags, as lines."""
    if sent.get("select_across") == "1":
        return ["This concerns all flags of the list."]
    try:
        keys = list(Flag.objects.filter(pk__in=sent.getlist(ACTION_CHECKBOX_NAME)).values_list("key", flat=True))
    except ValidationError:  # not an id
        return []
    more = len(keys) - _MAX_NAMED
    return [*sorted(keys)[:_MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]


def with_state(environment_key: str, as_json: dict[str, Any]) -> dict[str, Any]:
    common = {name: value for name, value in as_json.items() if name not in ("states", "archivedAt")}
    return {**common, **as_json["states"].get(environment_key, {"enabled": False, "rules": []})}
