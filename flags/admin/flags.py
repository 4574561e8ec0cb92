"""Flags in the admin: their list and their form, with the state in the current environment."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from config import snapshot
from config.admin.columns import column, time_cell, unbroken
from config.admin.current_environment import current_environment
from config.admin.questions import unless_refused
from config.admin.site import Confirmation, writer_here
from config.admin.template_filters import link_users
from config.change_log.sentences import kind_words
from config.documents import Document, is_same
from config.models import Environment
from flags.admin.edits import ask_before_saving_flag
from flags.admin.flag_filters import (
    EnabledFilter,
    ExperimentFilter,
    OwnerFilter,
    ShelfFilter,
    TagFilter,
    TypeFilter,
)
from flags.admin.flag_list import FlagList
from flags.admin.flag_pages import FlagPages, with_state
from flags.admin.flag_preview import FlagPreviewPage
from flags.admin.forms import FlagForm
from flags.admin.known_flags import KnownFlags, KnownFlagsPage, address_of_known_flags, known_flags
from flags.admin.promotion import PromotionPage
from flags.admin.segments import SegmentAdmin
from flags.admin.switching import FlagSwitch
from flags.admin.tryout import TryoutPage
from flags.admin.usage import usage_panel, uses_of_flag
from flags.changes import flag_changes, segment_changes
from flags.changes.driven_rules import driving_experiment
from flags.changes.properties import in_environment
from flags.explanations.change_words import FLAG_WORDS, SEGMENT_WORDS, TYPES
from flags.explanations.rule_words import describe_audience, operator_choices, summarise_rules
from flags.models import Flag, FlagQuerySet, FlagState, Segment
from flags.usage.staleness import with_stale_reasons

_VALUES = ("type", "variants", "default_variant", "off_variant", "schema")
_ABOUT = ("tags", "owner", "expires_at", "client_visible")
_WRITTEN = ("description", "enabled", "rules", *_VALUES, "prerequisites", *_ABOUT)

kind_words[flag_changes.KIND], kind_words[segment_changes.KIND] = FLAG_WORDS, SEGMENT_WORDS
admin.site.register(Segment, SegmentAdmin)


@admin.register(Flag)
class FlagAdmin(FlagList, FlagPreviewPage, TryoutPage, PromotionPage, KnownFlagsPage, FlagPages):
    kind = flag_changes.KIND
    is_environmental = True
    form = FlagForm
    list_filter = (EnabledFilter, ShelfFilter, TagFilter, OwnerFilter, TypeFilter, ExperimentFilter)
    search_fields = ("key", "description")
    search_help_text = "Key or description"
    ordering = ("key",)
    change_form_outer_before_template = "admin/flags/flag/standing.html"
    change_form_after_template = "admin/flags/flag/after.html"
    actions_detail = ("try_it", "promote", "archive", "restore")

    def changeform_view(self, request: HttpRequest, *arguments: Any, **options: Any) -> Any:
        if request.method == "POST":
            snapshot.refresh()  # for the question, before the transaction begins
        return super().changeform_view(request, *arguments, **options)

    def get_queryset(self, request: HttpRequest) -> FlagQuerySet:
        environment = current_environment(request)
        flags = Flag.objects.in_environment(environment).prefetch_related("tag_rows")
        return with_stale_reasons(flags, environment, timezone.now())

    # the form

    @column("On for")
    def shown_rules(self, flag: Flag) -> SafeString:
        return link_users(summarise_rules(flag.rules, timezone.now()))

    def get_fieldsets(self, request: HttpRequest, obj: Flag | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            shown = ["shown_state", "shown_rules", "shown_values", "shown_prerequisites", "shown_tags", "owner"]
            shown += ["shown_expiry", "shown_visibility", "shown_update"]
            return [(None, {"fields": ["key", "description", *shown]})]
        folded = {"classes": ["collapse"]}
        return [
            (None, {"fields": ["key", "description", "enabled", "rules"]}),
            (_title("Values", self.shown_values(obj)), {**folded, "fields": list(_VALUES)}),
            (_title("Prerequisites", self.shown_prerequisites(obj)), {**folded, "fields": ["prerequisites"]}),
            (_title("About", _about(obj)), {**folded, "fields": list(_ABOUT)}),
            (None, {"fields": ["reason"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Flag | None = None) -> Any:
        return [] if obj is None else ["key"]

    @column("State", label={"on": "success", "off": "default"})
    def shown_state(self, flag: Flag) -> str:
        return "on" if flag.enabled else "off"

    @column("Values", empty_value="on or off")
    def shown_values(self, flag: Flag | None) -> str | None:
        if flag is None or not flag.type:
            return None
        return f"{TYPES[flag.type]}: {_join_keys([variant['key'] for variant in flag.variants])}"

    @column("Prerequisites", empty_value="none")
    def shown_prerequisites(self, flag: Flag | None) -> str | None:
        return (_join_keys([wanted["flag"] for wanted in flag.prerequisites]) or None) if flag else None

    @column("Tags", empty_value="none")
    def shown_tags(self, flag: Flag) -> str | None:
        return ", ".join(flag.tags) or None

    @column("Expires", empty_value="never")
    def shown_expiry(self, flag: Flag) -> SafeString | None:
        return time_cell(flag.expires_at)

    @column("Visible to client keys")
    def shown_visibility(self, flag: Flag) -> str:
        return "yes" if flag.client_visible else "no"

    def loaded(self, request: HttpRequest, obj: Flag | None) -> dict[str, Any]:
        initial = super().loaded(request, obj)
        if obj is None:
            return initial
        return {**initial, "enabled": obj.enabled, "rules": obj.rules, "tags": obj.tags, "version": obj.etag}

    def form_context(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        return {
            "elsewhere": partial(_elsewhere, object_id, current_environment(request)),
            "known_flags": partial(_known_flags, object_id),
            "flag_search": address_of_known_flags,
            "known_segments": _known_segments,
            "operator_choices": operator_choices,
        }

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *options: Any, **more: Any) -> Any:
        if flag := context.get("original"):
            context["usage"] = usage_panel(flag, current_environment(request), timezone.now())
            context["driver"] = driving_experiment(flag.rules)
            context["uses"] = uses = uses_of_flag(request, flag.key)
            context["driver_address"] = next((use.address for use in uses if use.key == context["driver"]), "")
        return super().render_change_form(request, context, *options, **more)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        flag = self.find(request, str(object_id))
        hidden = "archive" if flag and flag.archived_at else "restore"
        actions = super().get_actions_detail(request, object_id)
        return [action for action in actions if action.action_name != f"flags_flag_{hidden}"]

    # the domain

    def write(self, request: HttpRequest, obj: Flag, values: dict[str, Any], *, is_new: bool) -> Flag:
        new = {name: values[name] for name in _WRITTEN}
        common = {"reason": values["reason"], **writer_here(request)}
        if is_new:
            return flag_changes.create_flag(key=values["key"], **new, **common)
        with transaction.atomic():  # a question rolls back the valid change
            flag = self.rewrite(request, obj, values)
            as_json, switch = flag_changes.flag_as_json(flag), None
            if flag.enabled is not obj.enabled:
                switch = FlagSwitch(obj, flag.enabled, in_environment(as_json, common["environment"].key))
            ask_before_saving_flag(self, request, as_json, switch)
        return flag

    def rewrite(self, request: HttpRequest, obj: Flag, values: dict[str, Any]) -> Flag:
        # Fields that were not edited are left out, so that the domain may adapt them, such as a
        # removed variant.
        edited = {name: values[name] for name in _WRITTEN if not is_same(values[name], getattr(obj, name))}
        common = {"if_match": values["version"], "reason": values["reason"], **writer_here(request)}
        return flag_changes.update_flag(key=obj.key, changes=edited, **common)

    def document_of(self, request: HttpRequest, obj: Flag) -> Document:
        return with_state(current_environment(request).key, flag_changes.flag_as_json(obj))

    def remove(self, request: HttpRequest, obj: Flag, reason: str) -> None:
        flag_changes.delete_flag(key=obj.key, reason=reason, **writer_here(request))

    def deletion(self, request: HttpRequest, obj: Flag) -> Confirmation:
        confirmation = Confirmation(
            f"Delete {obj.key}?",
            (
                "The flag is deleted in every environment. Code that still evaluates it gets an error.",
                "Its history stays in the change log. To keep the flag itself, archive it instead.",
            ),
            "Delete the flag",
            is_everywhere=True,
        )
        check = partial(flag_changes.require_deletable, obj, current_environment(request))
        return unless_refused(confirmation, check, f"{obj.key} cannot be deleted now")


def _title(name: str, content: str | None) -> str:
    """Return the title of a folded part of the form, which says what it contains."""
    return f"{name} · {content}" if content else name


def _about(flag: Flag | None) -> str:
    if flag is None:
        return ""
    hidden = "" if flag.client_visible else "not for client keys"
    return " · ".join(filter(None, (", ".join(flag.tags[:5]), flag.owner, hidden)))


def _join_keys(keys: list[str]) -> str:
    more = len(keys) - 5
    return ", ".join(keys[:5]) + (f" and {more} more" if more > 0 else "")


def _elsewhere(flag_id: Any, environment: Environment) -> list[tuple[FlagState, str]]:
    """Return the flag's states in other environments, with rules in words."""
    states = FlagState.objects.filter(flag_id=flag_id).exclude(environment=environment).select_related("environment")
    now = timezone.now()
    return [
        (state, unbroken(describe_audience(state.rules, now, is_on=state.enabled)))
        for state in states.order_by("environment__key")
    ]


def _known_flags(flag_id: Any) -> KnownFlags | None:
    """Return the possible prerequisites, unless there are many."""
    return known_flags(Flag.objects.current().exclude(pk=flag_id) if flag_id else Flag.objects.current())


def _known_segments() -> list[str]:
    return list(Segment.objects.values_list("key", flat=True))
