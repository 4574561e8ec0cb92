"""The page that evaluates a flag for one user, now or at another time, and explains the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.enums import ActionVariant

from config import snapshot as system
from config.admin.current_environment import check_environment, current_environment
from config.admin.forms import JSONField, MomentField, StrictForm, TextField
from config.admin.kept_input import sent_input
from config.admin.site import DomainAdmin, button
from config.errors import DomainError
from config.models import Change, Environment
from config.slugs import NAME_LENGTH
from flags import exposures, snapshot
from flags.changes import flag_changes, segment_changes
from flags.changes.past import configuration_at
from flags.engine.types import Configuration, Context
from flags.explanations.trace_words import DescribedTrace, describe_trace
from flags.explanations.tracing import explain
from flags.models import Flag, Segment
from flags.validation.parsing import references


class AttributesField(JSONField):
    """A JSON object, which a script shows as rows of names and values."""

    def __init__(self) -> None:
        super().__init__(name="attributes", editor="attributes", blank=dict, rows=6)

    def clean(self, value: Any) -> Any:
        attributes = super().clean(value)
        if not isinstance(attributes, dict):
            raise forms.ValidationError("Must be a JSON object.")
        return attributes


class TryoutForm(StrictForm, forms.Form):
    user_id = TextField(
        required=True,
        max_length=NAME_LENGTH,
        label="User ID",
        error_messages={
            "required": "Must not be empty.",
            "max_length": f"Must be at most {NAME_LENGTH} characters.",
        },
    )
    attributes = AttributesField()
    at = MomentField(
        label="At", help_text="In UTC. Empty: now. For a past time, the configuration of that time is used."
    )
    opened_in = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (Script("flags/attributes.js", type="module", blocking="render"),)


@dataclass(frozen=True, slots=True)
class Tryout:
    """The result of an evaluation, and the configuration it used."""

    user_id: str
    trace: DescribedTrace
    at: datetime
    is_now: bool
    revision: int
    last_change: Change | None


class TryoutPage(DomainAdmin):
    """The page, with its button above the form of a flag."""

    def has_try_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return bool(self.has_view_permission(request))

    @button("Try it", permission="try", icon="labs", variant=ActionVariant.PRIMARY)
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        if not self.has_view_permission(request, flag):
            raise PermissionDenied
        environment = current_environment(request)
        form = TryoutForm(sent_input(request) or None, initial={"opened_in": environment.key}, label_suffix="")
        form.fields["attributes"].widget.attrs["data-names"] = json.dumps(_attributes_used(flag))
        context: dict[str, Any] = {"form": form, "original": flag, "title": f"Try {flag.key}", "media": form.media}
        if form.is_valid():
            try:
                check_environment(request, form.cleaned_data["opened_in"])
                context["tryout"] = _try(flag, environment, form.cleaned_data)
            except DomainError as refusal:
                form.add_refusal(refusal)
        return self.page(request, "admin/flags/flag/try_it.html", context)


def _try(flag: Flag, environment: Environment, values: Mapping[str, Any]) -> Tryout:
    now = timezone.now()
    at = values["at"] or now
    configuration, revision = _configuration(flag, environment, at, now)
    context = Context(values["user_id"], values["attributes"], configuration, at)
    if configuration.experiments:
        exposures.load_assignments(environment, context, [flag.key], until=at if at < now else None)
    return Tryout(
        user_id=values["user_id"],
        trace=describe_trace(explain(configuration.flags[flag.key], context).as_json(), environment.name),
        at=at,
        is_now=values["at"] is None,
        revision=revision,
        last_change=Change.objects.of_key(flag_changes.KIND, flag.key).as_of(at).defer("before", "after").first(),
    )


def _configuration(flag: Flag, environment: Environment, at: datetime, now: datetime) -> tuple[Configuration, int]:
    """Return the configuration at a time, and its revision. For a future time, it is the current one."""
    if at < now:
        return configuration_at(flag.key, environment.key, at)
    system.refresh()
    return snapshot.configuration(environment.key), system.revision()


def _attributes_used(flag: Flag) -> list[str]:
    """Return the attributes that the flag's rules and their segments read, in order."""
    keys = [named.key for named in references({"rules": flag.rules}) if named.kind == segment_changes.KIND]
    members = Segment.objects.filter(key__in=keys).values_list("conditions", flat=True) if keys else ()
    conditions = chain(*(rule.get("conditions", ()) for rule in flag.rules), *members)
    names = [*(condition.get("attribute") for condition in conditions), *(rule.get("bucketBy") for rule in flag.rules)]
    return list(dict.fromkeys(name for name in names if name and name != "userId"))
