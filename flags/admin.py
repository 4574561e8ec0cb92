"""Flags in the admin, as they stand in the environment that one works in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from config.admin_site import ChoiceFilter, Confirmation, DomainAdmin, column, in_two_lines, moment, writer_here
from config.current_environment import check_environment, current_environment
from config.errors import DomainError, ErrorCode
from config.models import Environment
from flags import changes
from flags.forms import FlagForm
from flags.models import Flag, FlagQuerySet, FlagState
from flags.summary import summarise


class EnabledFilter(ChoiceFilter):
    title = "state"
    parameter_name = "enabled"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("true", "On"), ("false", "Off")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(enabled=self.value() == "true") if self.value() else queryset


@admin.register(Flag)
class FlagAdmin(DomainAdmin):
    kind = changes.KIND
    is_environmental = True
    form = FlagForm
    list_filter = (EnabledFilter,)
    search_fields = ("key", "description")
    search_help_text = "Key or description"
    ordering = ("key",)
    change_form_outer_before_template = "admin/flags/flag/elsewhere.html"

    def get_queryset(self, request: HttpRequest) -> FlagQuerySet:
        return Flag.objects.in_environment(current_environment(request))

    # the list

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[Flag], Any]]:
        return ["shown_key", self._switch(request), "shown_rules", "shown_update"]

    @column("Flag", ordering="key")
    def shown_key(self, flag: Flag) -> SafeString:
        return in_two_lines(flag.key, flag.description[:100])

    @column("For whom")
    def shown_rules(self, flag: Flag) -> str:
        return summarise(flag.rules)

    @column("Updated", ordering="updated_at")
    def shown_update(self, flag: Flag) -> SafeString | None:
        return moment(flag.updated_at)

    def _switch(self, request: HttpRequest) -> Callable[[Flag], SafeString]:
        """The column that switches a flag: a button of the list's own form, which carries the CSRF token."""
        environment = current_environment(request)
        may_change = self.has_change_permission(request)
        query = request.GET.urlencode()

        @column("On", ordering="enabled")
        def switch(flag: Flag) -> SafeString:
            state = "on" if flag.enabled else "off"
            if not may_change:
                return format_html('<span class="hy-state hy-state-{0}">{0}</span>', state)
            return format_html(
                '<button type="submit" class="hy-switch" role="switch" aria-checked="{}" name="switch" value="{}" '
                'formaction="{}?{}" title="{}" aria-label="{}"><span></span></button>',
                "true" if flag.enabled else "false",
                f"{environment.key}:{'off' if flag.enabled else 'on'}",
                self.address_of("toggle", flag.pk),
                query,
                f"{state.capitalize()} in {environment.name}",
                f"{flag.key} in {environment.name}",
            )

        return switch

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.toggle_view)
        return [path("<path:object_id>/toggle/", view, name="flags_flag_toggle"), *super().get_urls()]

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
        try:
            check_environment(request, opened_in)
            changes.update_flag(key=flag.key, changes={"enabled": wanted == "on"}, **writer_here(request))
        except DomainError as refusal:
            messages.error(request, refusal.message)
        else:
            messages.success(request, f"{flag.key} is {wanted} in {current_environment(request).name}.")
        query = request.GET.urlencode()
        return HttpResponseRedirect(self.address_of("changelist") + (f"?{query}" if query else ""))

    # the form

    def get_fieldsets(self, request: HttpRequest, obj: Flag | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["key", "description", "shown_state", "shown_rules", "shown_update"]})]
        return [(None, {"fields": ["key", "description", "enabled", "rules", "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Flag | None = None) -> Any:
        return [] if obj is None else ["key"]

    @column("State", label={"on": "success", "off": "default"})
    def shown_state(self, flag: Flag) -> str:
        return "on" if flag.enabled else "off"

    def loaded(self, request: HttpRequest, obj: Flag | None) -> dict[str, Any]:
        here = super().loaded(request, obj)
        return here if obj is None else {**here, "enabled": obj.enabled, "rules": obj.rules, "version": obj.etag}

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        # Not looked up before Django knows that there is such a flag.
        context = {"elsewhere": partial(_elsewhere, object_id, current_environment(request))}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    # the domain

    def write(self, request: HttpRequest, obj: Flag, values: dict[str, Any], *, is_new: bool) -> Flag:
        new = {name: values[name] for name in ("description", "enabled", "rules")}
        common = {"reason": values["reason"], **writer_here(request)}
        if is_new:
            return changes.create_flag(key=values["key"], **new, **common)
        try:
            return changes.update_flag(key=obj.key, changes=new, if_match=values["version"], **common)
        except DomainError as refusal:
            if refusal.code is not ErrorCode.PRECONDITION_FAILED:
                raise
            advice = "Nothing was saved: open this page again to see the flag as it is now, and make your edit there."
            raise DomainError(refusal.code, f"{refusal.message} {advice}") from refusal

    def remove(self, request: HttpRequest, obj: Flag, reason: str) -> None:
        changes.delete_flag(key=obj.key, reason=reason, **writer_here(request))

    def deletion(self, request: HttpRequest, obj: Flag) -> Confirmation:
        return Confirmation(
            f"Delete {obj.key}?",
            (
                "The flag goes from every environment. Code that still asks for it is told that there is no such flag.",
                "While it is on in another environment it cannot be deleted.",
                "Its history stays in the change log.",
            ),
            "Delete the flag",
        )


def _elsewhere(flag_id: str, here: Environment) -> list[tuple[FlagState, str]]:
    """How the flag stands in the other environments."""
    states = FlagState.objects.filter(flag_id=flag_id).exclude(environment=here).select_related("environment")
    return [(state, summarise(state.rules)) for state in states.order_by("environment__key")]
