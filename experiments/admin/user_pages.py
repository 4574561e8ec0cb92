"""The pages of one user of an application in the current environment: look up, force a variant, erase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.forms.widgets import Script
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from config.admin.current_environment import check_environment, current_environment, environments_of
from config.admin.forms import StrictForm
from config.admin.kept_input import sent_input
from config.admin.navigation import SHOWN_OF_USERS, may_view
from config.admin.questions import require_agreement
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.admin.site import Confirmation, DomainAdmin, writer_here
from config.admin.template_filters import address_of_user
from config.change_log.named_users import fill, name_user
from config.errors import DomainError, ErrorCode
from config.models import Environment
from config.slugs import NAME_LENGTH
from events.models import Event
from events.removal import erase_user
from experiments.admin.user_parts import (
    STATES,
    attributes_to_ask_for,
    context_of,
    describe_experiments,
    evaluate_flags,
    experiments_of,
)
from experiments.admin.user_timeline import read_timeline
from experiments.api.permissions import may_write_flag, require_flag
from experiments.exposures.queries import attributes_seen, exposures_of
from experiments.lifecycle.changes import get_experiment, update_experiment
from experiments.models import Experiment, Exposure, Status
from experiments.stats.numbers import format_count
from flags.admin.tryout import AttributesField
from flags.engine.types import Context

_TEMPLATES = "admin/experiments/user"
_MAX_COUNTED = 10_000
_FLAGS, _EXPERIMENTS, _EVENTS = SHOWN_OF_USERS


class AttributesForm(StrictForm, forms.Form):
    """The attributes with which the page evaluates flags and experiments."""

    attributes = AttributesField()

    class Media:
        js = (Script("flags/attributes.js", type="module", blocking="render"),)


class UserPages(DomainAdmin):
    """The pages of a user. Each part is for those who may view its objects."""

    def get_urls(self) -> list[Any]:
        return [
            self.route("user/", self.user_view, "user"),
            self.route("user/force/", self.force_view, "user_force"),
            self.route("user/erase/", self.erase_view, "user_erase"),
            *super().get_urls(),
        ]

    def user_view(self, request: HttpRequest) -> HttpResponse:
        """Show the user with the id in the query, or a form that asks for one.

        Attributes that are sent replace those last seen, for this look only.
        """
        if not any(may_view(request, model) for model in SHOWN_OF_USERS):
            raise PermissionDenied
        user_id = request.GET.get("id", "")
        context: dict[str, Any] = {"title": "Find a user", "opts": None, "user_id": user_id}
        if not user_id:
            return self.page(request, f"{_TEMPLATES}/find.html", context)
        if refusal := _refuse(user_id):
            return self.page(request, f"{_TEMPLATES}/find.html", {**context, "refusal": refusal})
        shown = _UserPage(request, user_id).context()
        return self.page(request, f"{_TEMPLATES}/page.html", {**context, "title": "User", **shown})

    def force_view(self, request: HttpRequest) -> HttpResponse:
        """Force a variant for the user, or stop forcing one, and return to the page of the user."""
        user_id = _user_of_write(request)
        if not self.has_change_permission(request):
            raise PermissionDenied
        sent = sent_input(request)
        if sent or request.method == "POST":
            try:
                check_environment(request, sent.get("opened_in"))
                self.succeed(request, force_variant(self, request, user_id))
            except DomainError as refusal:
                messages.error(request, refusal.message)
        return HttpResponseRedirect(f"{address_of_user(user_id)}#experiments")

    def erase_view(self, request: HttpRequest) -> HttpResponse:
        """Ask, and then erase the user from the current environment."""
        user_id = _user_of_write(request)
        if not request.user.has_perm("events.delete_event"):
            raise PermissionDenied
        environment, back = current_environment(request), address_of_user(user_id)
        if request.method == "POST":
            try:
                check_environment(request, request.POST.get("opened_in"))
                erased = erase_user(user_id, environment)
            except DomainError as refusal:
                messages.error(request, refusal.message)
            else:
                messages.success(
                    request,
                    f"{user_id} is erased from {environment.name}: {format_count(erased.events, 'event')} and "
                    f"{format_count(erased.exposures, 'exposure')} are deleted.",
                )
            return HttpResponseRedirect(back)
        context = {
            "confirmation": _erasure(user_id, environment),
            "title": "Erase a user",
            "opts": None,
            "back": back,
            "user_id": user_id,
        }
        return self.page(request, f"{_TEMPLATES}/erase.html", context)


class _UserPage:
    """What the page shows of one user, by the rights of the person who looks."""

    def __init__(self, request: HttpRequest, user_id: str) -> None:
        self._request, self._user_id = request, user_id
        self._sent: Mapping[str, str] = request.POST if request.method == "POST" else request.GET
        self._environment, self._now = current_environment(request), timezone.now()
        self._sees_experiments = may_view(request, _EXPERIMENTS)
        self._exposures = exposures_of(self._environment, user_id) if self._sees_experiments else []
        self._seen = attributes_seen(self._environment, user_id, self._exposures)
        sent = sent_input(request)
        self._form = AttributesForm(
            sent if "attributes" in sent else None,
            initial={"attributes": dict(self._seen.attributes)},
            label_suffix="",
        )

    def context(self) -> dict[str, Any]:
        attributes = self._seen.attributes
        if self._form.is_valid():
            attributes = self._form.cleaned_data["attributes"]
        evaluated = context_of(self._environment, self._user_id, attributes, self._now)
        names = attributes_to_ask_for(evaluated.configuration)
        own = {"data-names": json.dumps(names), "form": "hy-user-form", "aria-labelledby": "hy-attributes"}
        self._form.fields["attributes"].widget.attrs |= own
        experiments = experiments_of(self._environment) if self._sees_experiments else []
        events = self._events(experiments)
        newest = events["timeline"].newest if events else None
        return {
            "form": self._form,
            "media": self._form.media,
            "asked_for": self._asked_for(),
            "seen": self._seen,
            "last_seen": max(filter(None, (self._seen.seen_at, newest)), default=None),
            "is_edited": self._form.is_bound,
            "has_spaces": self._user_id != self._user_id.strip(),
            "trimmed": self._user_id.strip(),
            **self._flags(evaluated),
            **self._experiments(evaluated, experiments),
            **events,
        }

    def _asked_for(self) -> Environment | None:
        """Return the other environment that a link to this page was about."""
        key = self._request.GET.get("in", "")
        others = (each for each in environments_of(self._request) if each != self._environment)
        return next((environment for environment in others if environment.key == key), None)

    def _flags(self, evaluated: Context) -> dict[str, Any]:
        if not may_view(self._request, _FLAGS):
            return {}
        search, state = self._sent.get("q", "")[:NAME_LENGTH], self._sent.get("state", "")
        state = state if state in STATES else ""
        flags = evaluate_flags(evaluated, self._environment, search=search, state=state, page=self._sent.get("p", "1"))
        return {
            "flags": flags,
            "search": search,
            "state": state,
            "states": STATES.items(),
            "opened": self._sent.get("flag", ""),
        }

    def _experiments(self, evaluated: Context, experiments: Sequence[Experiment]) -> dict[str, Any]:
        if not self._sees_experiments:
            return {}
        rows = describe_experiments(evaluated, self._environment, experiments, self._exposures)
        may_force = self._request.user.has_perm("experiments.change_experiment")
        choices = choices_to_force(self._request, experiments) if may_force else []
        return {"experiments": rows, "may_force": may_force, "choices": choices}

    def _events(self, experiments: Sequence[Experiment]) -> dict[str, Any]:
        if not may_view(self._request, _EVENTS):
            return {}
        names = {experiment.pk: experiment.key for experiment in experiments}
        exposures = [exposure for exposure in self._exposures if exposure.experiment_id in names]
        before = self._sent.get("before", "")
        return {"timeline": read_timeline(self._environment, self._user_id, before, exposures, names)}


def _refuse(user_id: str) -> str:
    """Say why no user can have this id; empty if one can."""
    if len(user_id) > NAME_LENGTH:
        return f"A user ID has at most {NAME_LENGTH} characters. This one has {len(user_id):,}."
    return "A user ID cannot contain this character: U+0000." if "\0" in user_id else ""


def _user_of_write(request: HttpRequest) -> str:
    user_id = request.GET.get("id", "")
    if not user_id or _refuse(user_id):
        raise Http404
    return user_id


def _erasure(user_id: str, environment: Environment) -> Confirmation:
    events = Event.objects.filter(environment=environment, user_id=user_id).order_by()[: _MAX_COUNTED + 1].count()
    counted = f"more than {_MAX_COUNTED:,} events" if events > _MAX_COUNTED else format_count(events, "event")
    exposures = format_count(len(exposures_of(environment, user_id)), "exposure")
    return Confirmation(
        fill("Erase {} from {}?", name_user(user_id), environment.name),
        (
            f"This deletes {counted} and {exposures} of the user, with all their attributes. Nobody can undo it.",
            "Results no longer count the user, except for figures that were stored for good.",
            "Rules and segments that list the user stay as they are.",
        ),
        "Erase the user",
    )


@dataclass(frozen=True, slots=True)
class ForcedChoice:
    """An experiment with its variants: what the form sends for each, and its name."""

    experiment: str
    variants: Sequence[tuple[str, str]]


def choices_to_force(request: HttpRequest, experiments: Sequence[Experiment]) -> list[ForcedChoice]:
    """Return the drafts and running experiments in which this person may force variants."""
    current = (
        experiment
        for experiment in experiments
        if experiment.status != Status.STOPPED and experiment.archived_at is None
    )
    return [
        ForcedChoice(experiment.key, [(f"{experiment.key}:{key}", key) for key in experiment.variant_keys])
        for experiment in current
        if experiment.status == Status.DRAFT or may_write_flag(request.user, experiment)
    ]


def force_variant(model_admin: DomainAdmin, request: HttpRequest, user_id: str) -> str:
    """Force the variant that was sent as `experiment:variant`; an empty variant forces none. Return what was done.

    Ask first if this takes the user out of the results. Raises DomainError.
    """
    key, _, variant = sent_input(request).get("forced", "").partition(":")
    if not key:
        raise DomainError(ErrorCode.VALIDATION_FAILED, "Choose a variant.")
    experiment = get_experiment(key, current_environment(request))
    if experiment.status == Status.RUNNING:
        require_flag(request.user, experiment)
    if variant not in ("", *experiment.variant_keys):
        raise DomainError(ErrorCode.VALIDATION_FAILED, f"{key} has no such variant. Choose one in the list.")
    _ask_before_forcing(model_admin, request, experiment, user_id, variant)
    forced = {other: forced for other, forced in experiment.forced_variants.items() if other != user_id}
    update_experiment(
        key=key,
        changes={"forced_variants": {**forced, **({user_id: variant} if variant else {})}},
        if_match=experiment.etag,
        reason=reason_of(request),
        **writer_here(request),
    )
    if variant:
        return f"{user_id} sees {variant} in {key} from now on, and does not count in its results."
    return f"No variant is forced for {user_id} in {key} any more."


def _ask_before_forcing(
    model_admin: DomainAdmin, request: HttpRequest, experiment: Experiment, user_id: str, variant: str
) -> None:
    """Ask if the results will no longer count the user, if a reason is missing, or after signing in again."""
    consequences = _consequences(experiment, user_id) if variant else ()
    must_answer = request.method != "POST" or lacks_reason(request, reason_setting(model_admin, request))
    if not consequences and not must_answer:
        return
    title, button = (
        (fill("Force {} for {}?", variant, name_user(user_id)), f"Force {variant}")
        if variant
        else (fill("Force no variant for {} any more?", name_user(user_id)), "Force no variant")
    )
    confirmation = Confirmation(title, consequences, button, subjects=[f"{experiment.key}:{variant}"])
    require_agreement(model_admin, request, confirmation)


def _consequences(experiment: Experiment, user_id: str) -> tuple[str, ...]:
    exposure = Exposure.objects.filter(experiment=experiment, user_id=user_id).first()
    if experiment.frozen_at is not None or exposure is None:
        return ()
    return (
        f"The user counts in {experiment.key} for {exposure.variant} now. The exposure is deleted, and the results "
        "no longer count what the user did.",
        "If you stop forcing the variant later, the exposure does not come back.",
    )
