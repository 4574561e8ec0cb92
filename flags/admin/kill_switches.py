"""Kill switches in the admin. Only the token of a new kill switch is ever shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget

from config.admin.columns import column, time_cell
from config.admin.current_environment import current_environment
from config.admin.forms import DomainForm, LinesField, TextField
from config.admin.reasons import reason_of
from config.admin.settings_pages import EnvironmentFilter, StateFilter, show_environment
from config.admin.site import Confirmation, DomainAdmin, button, writer
from config.change_log.reversion import Irreversible, reversibles
from config.change_log.sentences import kind_words
from config.models import Environment
from flags.changes import kill_switches
from flags.explanations.change_words import KILL_SWITCH_WORDS
from flags.models import KillSwitch

_SHOWN_FLAGS = 5


class KillSwitchForm(DomainForm):
    name = TextField(required=True, help_text="What uses it, such as the name of an alert. The history shows it.")
    environment = forms.ModelChoiceField(
        Environment.objects.all(), required=False, widget=UnfoldAdminSelectWidget(), empty_label=None
    )
    flags = LinesField(
        label="Flags", required=True, help_text="The keys of the flags that it switches off, one a line."
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput())


kind_words[kill_switches.KIND] = KILL_SWITCH_WORDS
reversibles[kill_switches.KIND] = Irreversible(
    "A kill switch has no undo, because an alert may use it; set it back by hand or revoke it."
)


@admin.register(KillSwitch)
class KillSwitchAdmin(DomainAdmin):
    kind = kill_switches.KIND
    form = KillSwitchForm
    list_display = ("name", "shown_flags", "shown_environment", "shown_prefix", "state", "shown_creation")
    list_filter = (EnvironmentFilter, StateFilter)
    list_select_related = ("environment",)
    search_fields = ("name",)
    actions_detail = ("revoke",)

    @column("Switches off")
    def shown_flags(self, switch: KillSwitch) -> str:
        more = len(switch.flags) - _SHOWN_FLAGS
        return f"{', '.join(switch.flags[:_SHOWN_FLAGS])}{f' and {more} more' if more > 0 else ''}"

    @column("Environment", ordering="environment__key")
    def shown_environment(self, switch: KillSwitch) -> SafeString:
        return show_environment(switch.environment)

    @column("Token starts with")
    def shown_prefix(self, switch: KillSwitch) -> str:
        return f"{switch.prefix}…"

    @column("Address")
    def shown_address(self, switch: KillSwitch) -> str:
        return f"POST /v1/hooks/{switch.pk}"

    @column("State", label={"live": "success", "revoked": "danger"})
    def state(self, switch: KillSwitch) -> str:
        return "revoked" if switch.revoked_at else "live"

    @column("Created", ordering="created_at")
    def shown_creation(self, switch: KillSwitch) -> SafeString | None:
        return time_cell(switch.created_at)

    def get_fieldsets(self, request: HttpRequest, obj: KillSwitch | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", "environment", "flags", "reason"]})]
        shown = ["shown_address", "shown_environment", "shown_prefix", "state"]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ["name", "shown_flags", *shown]})]
        return [(None, {"fields": [*shown, "name", "flags", "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: KillSwitch | None = None) -> Any:
        return ["shown_address", "shown_environment", "shown_prefix", "shown_flags", "state"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"environment": current_environment(request)}

    def loaded(self, request: HttpRequest, obj: KillSwitch | None) -> dict[str, Any]:
        return {} if obj is None else {"version": obj.etag}

    def document_of(self, request: HttpRequest, obj: KillSwitch) -> dict[str, Any]:
        return kill_switches.kill_switch_as_json(obj)

    def write(self, request: HttpRequest, obj: KillSwitch, values: dict[str, Any], *, is_new: bool) -> KillSwitch:
        if not is_new:
            return self.rewrite(request, obj, values)
        new = {name: values[name] for name in ("name", "flags", "reason")}
        environment = values["environment"] or current_environment(request)
        switch, request.token = kill_switches.create_kill_switch(  # type: ignore[attr-defined]  # ours
            environment=environment, **new, **writer(request)
        )
        return switch

    def rewrite(self, request: HttpRequest, obj: KillSwitch, values: dict[str, Any]) -> KillSwitch:
        new = {name: values[name] for name in ("name", "flags")}
        known = {"reason": values["reason"], "if_match": values["version"]}
        return kill_switches.update_kill_switch(obj, changes=new, **known, **writer(request))

    def response_add(self, request: HttpRequest, obj: KillSwitch, post_url_continue: str | None = None) -> HttpResponse:
        """Show the token, which is not stored."""
        context = {
            "original": obj,
            "secret": getattr(request, "token", ""),
            "address": request.build_absolute_uri(f"/v1/hooks/{obj.pk}"),
            "title": "Copy the token now",
        }
        return self.page(request, "admin/flags/killswitch/secret.html", context)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        switch = self.find(request, str(object_id))
        return [] if switch and switch.revoked_at else super().get_actions_detail(request, object_id)

    @button("Revoke", permission="revoke", icon="block")
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        switch = self.find(request, object_id)
        if switch is None:
            return self.missing(request, object_id)
        consequences = (
            "Every request with its token is refused from now on, so its alert switches nothing off any more.",
            "This cannot be undone.",
        )
        return self.confirm(
            request,
            switch,
            Confirmation(f"Revoke {switch}?", consequences, "Revoke the kill switch"),
            lambda: kill_switches.revoke_kill_switch(switch, reason=reason_of(request), **writer(request)),
            f"The kill switch {switch} is revoked.",
        )

    def has_revoke_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return bool(request.user.has_perm("flags.change_killswitch"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = super().has_change_permission(request, obj) and request.user.has_perm("flags.change_flag")
        return bool(may and not (obj and obj.revoked_at))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Require the right to change flags, because the token has it too."""
        return bool(super().has_add_permission(request) and request.user.has_perm("flags.change_flag"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
