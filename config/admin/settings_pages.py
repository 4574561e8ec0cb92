"""The settings pages of the admin: environments, API keys, users and groups, and the change log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from config.access import api_keys, environments
from config.admin.columns import column, time_cell
from config.admin.current_environment import current_environment, environments_of, switch_environment
from config.admin.filters import ChoiceFilter, DayFilter
from config.admin.forms import DomainForm, MomentField, TextField
from config.admin.reasons import reason_of
from config.admin.site import Confirmation, DomainAdmin, ReadOnly, button, writer
from config.admin.template_filters import link_users
from config.admin.write_pages import WritePages, admin_of_kind
from config.change_log.descriptions import describe_change_briefly, name_kind, without_long_documents
from config.models import ApiKey, Change, ChangeQuerySet, Environment, ReasonSetting, Scope, Source, kinds_of


def show_environment(environment: Environment | None) -> SafeString:
    if environment is None:
        return format_html('<span class="hy-muted">all</span>')
    tone = "production" if environment.protected else "calm"
    return format_html('<span class="hy-tag hy-tag-{}">{}</span>', tone, environment.name)


class EnvironmentFilter(ChoiceFilter):
    title = "environment"
    parameter_name = "environment"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(environment.key, environment.name) for environment in environments_of(request)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(environment__key=self.value()) if self.value() else queryset


class EnvironmentForm(DomainForm):
    key = TextField(required=True, help_text="The name that API clients use. It cannot be changed later.")
    name = TextField(required=True, help_text="The name that the admin shows.")
    is_default = forms.BooleanField(
        required=False,
        label="Default",
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Used for calls that name no environment. Only one environment is the default.",
    )
    protected = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Show this environment in red, and ask before flags are switched or taken from users there.",
    )
    change_reason = forms.TypedChoiceField(
        choices=ReasonSetting.choices,
        required=False,
        empty_value=ReasonSetting.OPTIONAL,
        initial=ReasonSetting.OPTIONAL,
        label="Reason of a change",
        widget=UnfoldAdminSelectWidget(),
        help_text="Whether the admin asks for a reason when something changes in this environment. The API never does.",
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput())


@admin.register(Environment)
class EnvironmentAdmin(DomainAdmin):
    kind = environments.KIND
    form = EnvironmentForm
    list_display = ("shown_name", "key", "shown_default", "shown_protection", "shown_reason", "shown_creation")
    search_fields = ("key", "name")
    ordering = ("-is_default", "key")

    @column("Name", ordering="name")
    def shown_name(self, environment: Environment) -> SafeString:
        return show_environment(environment)

    @column("Default", label={"default": "info"})
    def shown_default(self, environment: Environment) -> tuple[str, str] | None:
        return ("default", "yes") if environment.is_default else None

    @column("Protected")
    def shown_protection(self, environment: Environment) -> str:
        return "asks first" if environment.protected else "no"

    @column("Reason of a change", ordering="change_reason")
    def shown_reason(self, environment: Environment) -> str:
        return ReasonSetting(environment.change_reason).label.lower()

    @column("Created", ordering="created_at")
    def shown_creation(self, environment: Environment) -> SafeString | None:
        return time_cell(environment.created_at)

    def get_urls(self) -> list[Any]:
        switch = path("switch/", self.admin_site.admin_view(switch_environment), name="switch_environment")
        revision = path("revision/", self.admin_site.admin_view(answer_revision), name="revision")
        return [switch, revision, *super().get_urls()]

    def get_fieldsets(self, request: HttpRequest, obj: Environment | None = None) -> Any:
        default = [] if obj is None else ["is_default"]
        return [(None, {"fields": ["key", "name", *default, "protected", "change_reason", "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Environment | None = None) -> Any:
        return [] if obj is None else ["key"]

    def write(self, request: HttpRequest, obj: Environment, values: dict[str, Any], *, is_new: bool) -> Environment:
        if not is_new:
            return self.rewrite(request, obj, values)
        new = {name: value for name, value in values.items() if name not in ("is_default", "version")}
        return environments.create_environment(**new, **writer(request))

    def rewrite(self, request: HttpRequest, obj: Environment, values: dict[str, Any]) -> Environment:
        new = {name: value for name, value in values.items() if name != "version"}
        return environments.update_environment(obj, **new, if_match=values["version"], **writer(request))

    def document_of(self, request: HttpRequest, obj: Environment) -> dict[str, Any]:
        return environments.environment_as_json(obj)

    def loaded(self, request: HttpRequest, obj: Environment | None) -> dict[str, Any]:
        return {} if obj is None else {"version": obj.etag}

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ApiKeyForm(DomainForm):
    name = TextField(required=True, help_text="What the key is for, such as checkout service.")
    environment = forms.ModelChoiceField(Environment.objects.all(), widget=UnfoldAdminSelectWidget(), empty_label=None)
    scope = forms.TypedChoiceField(
        choices=Scope.choices,
        coerce=Scope,
        widget=UnfoldAdminSelectWidget(),
        help_text="Choose the smallest scope that is enough.",
    )
    common = forms.BooleanField(
        required=False,
        label="May change what all environments share",
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Only for scope manage: environments, segments, metrics, and variants, schemas and prerequisites of "
        "flags that exist. You need the permissions to change environments, flags, segments and metrics yourself.",
    )
    expires_at = MomentField(
        label="Expires", help_text="In UTC. Leave this empty for a key that is valid until it is revoked."
    )


class StateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("live", "Live"), ("revoked", "Revoked")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(revoked_at__isnull=self.value() == "live") if self.value() else queryset


@admin.register(ApiKey)
class ApiKeyAdmin(DomainAdmin):
    kind = api_keys.KIND
    form = ApiKeyForm
    list_display = (
        *("name", "shown_prefix", "shown_environment", "scope", "shown_common"),
        *("state", "shown_creation", "shown_expiry"),
    )
    list_filter = (EnvironmentFilter, StateFilter)
    list_select_related = ("environment",)
    search_fields = ("name",)
    actions_detail = ("revoke",)

    def next_moment(self, request: HttpRequest, rows: Any, now: datetime) -> datetime | None:
        expiries = (key.expires_at for key in rows if key.expires_at and not key.revoked_at)
        return min((moment for moment in expiries if moment > now), default=None)

    @column("Starts with")
    def shown_prefix(self, key: ApiKey) -> SafeString:
        return format_html("<code>{}…</code>", key.prefix)

    @column("Environment", ordering="environment__key")
    def shown_environment(self, key: ApiKey) -> SafeString:
        return show_environment(key.environment)

    @column("Common", label={"yes": "warning"})
    def shown_common(self, key: ApiKey) -> str:
        return "yes" if key.scope == Scope.MANAGE and key.may_change_common else "no"

    @column("State", label={"live": "success", "expired": "warning", "revoked": "danger"})
    def state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return "revoked"
        return "live" if key.is_live(timezone.now()) else "expired"

    @column("Expires", ordering="expires_at", empty_value="never")
    def shown_expiry(self, key: ApiKey) -> SafeString | None:
        return time_cell(key.expires_at)

    @column("Created", ordering="created_at")
    def shown_creation(self, key: ApiKey) -> SafeString | None:
        return time_cell(key.created_at)

    @column("Revoked")
    def shown_revocation(self, key: ApiKey) -> SafeString | None:
        return time_cell(key.revoked_at)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", "environment", "scope", "common", "expires_at", "reason"]})]
        shown = [*self.list_display, "shown_revocation"] if obj.revoked_at else [*self.list_display]
        return [(None, {"fields": shown})]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"environment": current_environment(request), "scope": Scope.CLIENT}

    def write(self, request: HttpRequest, obj: ApiKey, values: dict[str, Any], *, is_new: bool) -> ApiKey:
        key, request.secret = api_keys.create_key(**values, **_limited_writer(request))  # type: ignore[attr-defined]  # ours
        return key

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """Return a page with the secret. For a redirect, the secret would have to be stored."""
        self.succeed(request, f"The key {obj.name} is created.")
        context = {"original": obj, "secret": getattr(request, "secret", ""), "title": "Copy the new key now"}
        return self.page(request, "admin/config/apikey/secret.html", context)

    @button("Revoke", permission="revoke", icon="block")
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.find(request, object_id)
        if key is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Revoke {key.name}?",
            (
                "Every request with this key is refused from now on.",
                "This cannot be undone. Clients that still need access need a new key.",
            ),
            "Revoke the key",
        )
        done = f"The key {key.name} is revoked."
        return self.confirm(
            request,
            key,
            confirmation,
            lambda: api_keys.revoke_key(key, reason=reason_of(request), **_limited_writer(request)),
            done,
        )

    def may_undo(self, request: HttpRequest, change: Change) -> bool:
        """Return whether the person may revoke a new key."""
        is_common = (change.after or {}).get("common", False)
        may_revoke_common = request.user.has_perms(api_keys.COMMON_PERMISSIONS)
        return self.has_revoke_permission(request) and (may_revoke_common or not is_common)

    def has_revoke_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return bool(request.user.has_perm("config.change_apikey"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _limited_writer(request: HttpRequest) -> dict[str, Any]:
    arguments = writer(request)
    return {**arguments, "actor": api_keys.limited(arguments["actor"], request.user)}


class ChangedKindFilter(ChoiceFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, str(model_admin.opts.verbose_name)) for kind, model_admin in admin_of_kind().items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        kind = self.value()
        return queryset.filter(kind__in=kinds_of(kind)) if kind else queryset


class SourceFilter(ChoiceFilter):
    title = "source"
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Source.choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(source=self.value()) if self.value() else queryset


class ChangedEnvironmentFilter(EnvironmentFilter):
    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(environment=self.value()) if self.value() else queryset


class ChangedDayFilter(DayFilter):
    column = "at"


@admin.register(Change)
class ChangeAdmin(ReadOnly, WritePages):
    kind = "change"
    list_display = (
        "revision",
        "shown_moment",
        "shown_object",
        "shown_differences",
        "shown_environment",
        "actor",
        "shown_source",
    )
    list_filter = (ChangedKindFilter, SourceFilter, ChangedEnvironmentFilter, ChangedDayFilter)
    search_fields = ("key", "actor")
    search_help_text = "Key or user"
    sortable_by = ()
    change_form_template = "admin/config/change/change_form.html"
    actions_detail_hide_default = True

    @column("When")
    def shown_moment(self, change: Change) -> SafeString | None:
        return time_cell(change.at)

    @column("Object")
    def shown_object(self, change: Change) -> SafeString:
        return format_html('<span class="hy-muted">{}</span> {}', name_kind(change.object_kind), change.key)

    @column("What changed")
    def shown_differences(self, change: Change) -> SafeString:
        return link_users(describe_change_briefly(change).summary, change.environment)

    @column("Environment")
    def shown_environment(self, change: Change) -> str:
        return change.environment or "all"

    @column("Source", label=True)
    def shown_source(self, change: Change) -> str:
        return Source(change.source).label

    def for_list(self, queryset: ChangeQuerySet) -> ChangeQuerySet:
        return readable_in_lists(queryset)


def readable_in_lists(changes: ChangeQuerySet) -> ChangeQuerySet:
    """Return changes for a list, to be described by `describe_change_briefly`."""
    return without_long_documents(changes, [kind for kind, page in admin_of_kind().items() if page.has_long_documents])


def answer_revision(request: HttpRequest) -> JsonResponse:
    """Return the newest revision, when it was made, and the current time, in seconds since 1970. Live lists poll it."""
    newest = Change.objects.order_by("-revision").values_list("revision", "at").first()
    revision, changed_at = newest or (0, None)
    return JsonResponse(
        {"revision": revision, "at": changed_at.timestamp() if changed_at else 0, "now": timezone.now().timestamp()}
    )


class Scheduled(NamedTuple):
    """What will happen by itself: when, to what, the address of its page, and what happens in words."""

    at: datetime
    name: str
    address: str
    words: str


def expiring_keys(environment: Environment, now: datetime, until: datetime) -> Iterator[Scheduled]:
    """Yield the API keys of an environment that expire."""
    keys = environment.api_keys.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=until)
    for key in keys:
        assert key.expires_at is not None  # noqa: S101 (the query asks for it)
        yield Scheduled(key.expires_at, key.name, _address(key), "expires, and calls with this API key are refused")


def _address(key: ApiKey) -> str:
    return reverse("admin:config_apikey_change", args=[key.pk])
