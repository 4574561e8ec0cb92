"""The guided form of an experiment: one page per step, which saves the draft and leads to the next page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from config.admin.current_environment import check_environment
from config.admin.kept_input import sent_input
from config.admin.reasons import reason_setting
from config.admin.site import DomainAdmin, writer_here
from config.errors import DomainError, ErrorCode
from config.models import ReasonSetting
from experiments.admin.experiment_forms import PLAN_FIELDS, TWO_EQUAL_VARIANTS, GuidedForm
from experiments.lifecycle import changes
from experiments.models import Experiment, Status


@dataclass(frozen=True, slots=True)
class GuidedStep:
    """One page: its name in the address, its title, a sentence about it, and its fields."""

    name: str
    title: str
    about: str
    fields: Sequence[str]


STEPS = (
    GuidedStep(
        "hypothesis",
        "Hypothesis",
        "Say what you change, and what it should cause. Readers of the results will see it.",
        ("hypothesis", "description", "owner"),
    ),
    GuidedStep(
        "audience",
        "Flag and audience",
        "Choose the flag that shows users their variant, and who takes part. Without a flag, your code asks for the "
        "variant itself. Without conditions, everyone takes part.",
        ("flag", "percentage", "conditions", "group"),
    ),
    GuidedStep(
        "variants",
        "Variants",
        "Two equal variants need the fewest users. The first one is the control, which the others are compared with.",
        ("variants", "forced_variants"),
    ),
    GuidedStep(
        "metrics",
        "Metrics",
        "The first goal decides. Add guardrails for what must not get worse.",
        ("metrics",),
    ),
    GuidedStep(
        "plan",
        "Plan",
        "Say how many users you want to reach, and which effect matters to you. The planner says how many it takes.",
        PLAN_FIELDS,
    ),
)
_BY_NAME = {step.name: step for step in STEPS}
_TEMPLATE = "admin/experiments/experiment/guided.html"


class GuidedPages(DomainAdmin):
    """The pages of the guided form. The last one starts the experiment, with its checklist."""

    def get_urls(self) -> list[Any]:
        return [self.route("<path:object_id>/steps/<slug:step>/", self.guided_view, "guided"), *super().get_urls()]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None) -> Any:
        """Show the first step of a new experiment; with `?all=true`, all fields on one page."""
        if request.GET.get("all"):
            return super().add_view(request, form_url, extra_context)
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self._step(request, STEPS[0], None)

    def guided_view(self, request: HttpRequest, object_id: str, step: str) -> HttpResponse:
        experiment = self.find(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        if not self.has_change_permission(request, experiment):
            raise PermissionDenied
        if step not in _BY_NAME:
            raise Http404
        if experiment.status != Status.DRAFT:
            messages.error(request, f"{experiment.key} has started, so its design cannot change any more.")
            return HttpResponseRedirect(self.address_of("change", experiment.pk))
        return self._step(request, _BY_NAME[step], experiment)

    def _step(self, request: HttpRequest, step: GuidedStep, experiment: Experiment | None) -> HttpResponse:
        asks_reason = reason_setting(self, request) is ReasonSetting.REQUIRED
        names = _fields_of(step, experiment)
        form = GuidedForm(sent_input(request) or None, names=names, experiment=experiment, asks_reason=asks_reason)
        if request.method == "POST" and form.is_valid():
            try:
                check_environment(request, request.POST.get("opened_in"))
                saved = self._save(request, form, experiment)
            except DomainError as refusal:
                form.add_refusal(refusal)
            else:
                if saved is not None:
                    self.succeed(request, f"{step.title} of {saved.key} is saved.")
                    return HttpResponseRedirect(self._address_after(request, step, saved))
        context = {
            **self.form_context(request, str(experiment.pk) if experiment else None),
            "original": experiment,
            "title": f"{step.title} of {experiment.key}" if experiment else "New experiment",
            "step": step,
            "steps": self.steps_of(experiment, step.name),
            "is_first": step is STEPS[0],
            "form": form,
            "links": None,
        }
        return self.page(request, _TEMPLATE, context)

    def _save(self, request: HttpRequest, form: GuidedForm, experiment: Experiment | None) -> Experiment | None:
        """Save the step, or return None if somebody else has saved the experiment since the page was opened."""
        values = {"reason": "", **form.cleaned_data}
        if experiment is None:
            key, common = values["key"], {"reason": values["reason"], **writer_here(request)}
            return changes.create_experiment(key=key, variants=TWO_EQUAL_VARIANTS, **form.values, **common)
        try:
            return cast(Experiment, self.rewrite(request, experiment, values))
        except DomainError as refusal:
            if refusal.code is not ErrorCode.PRECONDITION_FAILED:
                raise
            form.resolve(self.find_conflict(request, experiment, values))
            return None

    def _address_after(self, request: HttpRequest, step: GuidedStep, experiment: Experiment) -> str:
        """Return the next page, or the one before if that was asked for. The last step leads to the start."""
        index = STEPS.index(step) + (-1 if request.POST.get("go") == "back" else 1)
        if index == len(STEPS):
            return self.address_of("start", experiment.pk)
        return self.address_of("guided", experiment.pk, STEPS[max(index, 0)].name)

    def steps_of(self, experiment: Experiment | None, current: str) -> list[tuple[str, str, bool]]:
        """Return the title and address of each step, and whether it is open. Without a draft, only one has a page."""
        if experiment is None:
            return [(step.title, "", step.name == current) for step in STEPS] + [("Check and start", "", False)]
        steps = [
            (step.title, self.address_of("guided", experiment.pk, step.name), step.name == current) for step in STEPS
        ]
        return [*steps, ("Check and start", self.address_of("start", experiment.pk), current == "start")]


def _fields_of(step: GuidedStep, experiment: Experiment | None) -> Sequence[str]:
    if experiment is None:
        return ("key", *step.fields)
    # What a flag serves follows the variants, so that both can change together.
    return (*step.fields, "flag") if step.name == "variants" and experiment.flag else step.fields
