"""The steps of an experiment in the admin: start, new phase, stop, ship and reopen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from unfold.enums import ActionVariant

from config.admin.current_environment import check_environment, current_environment
from config.admin.forms import JSONField, ReasonField, StrictForm
from config.admin.kept_input import sent_input
from config.admin.numbers import NumberField, PercentageField
from config.admin.reasons import reason_of, reason_setting
from config.admin.site import Confirmation, button, writer_here
from config.errors import DomainError
from config.models import ReasonSetting
from experiments.admin.guided import GuidedPages
from experiments.admin.open_windows import KEEP, WindowChoice, window_choices
from experiments.admin.results.pages import ResultPages
from experiments.admin.results.panel import build_panel
from experiments.admin.ship_form import ShipForm
from experiments.admin.words import describe_position, describe_split
from experiments.api.permissions import may_write_flag, require_flag
from experiments.lifecycle import changes
from experiments.lifecycle.changes import archive_experiment, unarchive_experiment
from experiments.lifecycle.checklist import check_experiment
from experiments.lifecycle.decisions import is_reopenable
from experiments.lifecycle.new_phase import open_phase
from experiments.lifecycle.objections import find_objections
from experiments.metrics.definition import longest_span
from experiments.models import REOPENABLE_FOR, WHOLE, Experiment, Status
from experiments.results.analyse import analyse_experiment
from experiments.results.outcomes import outcome_of
from experiments.results.types import Results
from flags.changes.driven_rules import own_rules
from flags.changes.experiment_rules import ShipTo
from flags.changes.flag_changes import get_flag
from flags.explanations.rule_words import operator_choices, summarise_rules
from flags.models import Segment


class WeightField(NumberField):
    """The weight of a variant. Weights are often percentages, but need not add up to 100."""

    takes_percent = True


class PhaseForm(StrictForm, forms.Form):
    """The form of a new phase, filled in with the current weights, percentage and conditions."""

    percentage = PercentageField(
        help_text="The share of the users who meet the conditions that takes part. Empty: all."
    )
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Only users who meet all of these conditions take part."
    )
    reason = ReasonField()

    class Media:
        js = (Script("experiments/audience.js", type="module", blocking="render"),)

    def __init__(self, data: Any, *, experiment: Experiment) -> None:
        whole = experiment.percentage == WHOLE
        started = {"percentage": None if whole else experiment.percentage, "conditions": experiment.conditions}
        super().__init__(data, initial=started, label_suffix="")
        self.keys = experiment.variant_keys
        for index, variant in enumerate(experiment.variants):
            self.fields[_weight(index)] = WeightField(label=variant["key"], initial=variant["weight"])
        self.fields["reason"].required = True
        self.fields["reason"].help_text = "Why the assignment changes. The results page shows it beside the phase."

    @property
    def weights(self) -> list[Any]:
        return [self[_weight(index)] for index in range(len(self.keys))]

    @property
    def values(self) -> dict[str, Any]:
        """Return the arguments of `open_phase`."""
        typed = self.cleaned_data
        variants = [{"key": key, "weight": typed[_weight(index)]} for index, key in enumerate(self.keys)]
        changes = {"variants": variants, "percentage": typed["percentage"], "conditions": typed["conditions"]}
        return {"changes": changes, "reason": typed["reason"]}

    def add_refusal(self, refusal: DomainError) -> None:
        """Show errors of variants at the weight that they name, or else at the first one."""
        others = []
        for detail in refusal.details:
            if not detail.field.startswith("variants"):
                others.append(detail)
                continue
            named = [index for index in range(len(self.keys)) if detail.field.startswith(f"variants[{index}]")]
            self.add_error(_weight(named[0] if named else 0), detail.message)
        if others or not refusal.details:
            super().add_refusal(DomainError(refusal.code, refusal.message, others))


def _weight(index: int) -> str:
    return f"weight_{index}"


_TEMPLATES = "admin/experiments/experiment"
_FITTING: Mapping[Status, tuple[str, ...]] = {
    Status.DRAFT: ("start",),
    Status.RUNNING: ("ship", "new_phase", "stop"),
    Status.STOPPED: ("reopen",),
}


class StepPages(GuidedPages, ResultPages):
    """The pages of the steps. The domain refuses steps that the experiment cannot take."""

    def results_context(self, request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
        may_ship = self.has_change_permission(request, experiment) and "ship" in _fitting_steps(request, experiment)
        return {**super().results_context(request, experiment), "may_ship": may_ship}

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        experiment = self.find(request, str(object_id))
        fitting = [*_fitting_steps(request, experiment), *_fitting_shelves(experiment)] if experiment else []
        names = [f"experiments_experiment_{name}" for name in fitting]
        actions = {action.action_name: action for action in super().get_actions_detail(request, object_id)}
        return [actions[name] for name in names if name in actions]

    @button("Start", permission="change", icon="play_arrow", variant=ActionVariant.PRIMARY)
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._find_for_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Start {experiment.key}?",
            (
                f"Users are assigned to variants from now on: {describe_split(experiment.variants)}.",
                "Variants, audience, plan and the definitions of metrics are fixed from then on. Only a new phase can "
                "change the audience and the weights. You can add metrics, but the verdict ignores them.",
                *_about_flag(
                    experiment,
                    f"gets a rule that serves users of the audience their variant{describe_position(experiment)}. "
                    "Nobody can edit this rule and those before it. All others go on to the rules after it",
                ),
                "The experiment runs until you stop it.",
            ),
            "Start the experiment",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, changes.start_experiment)
        done, template = f"{experiment.key} is running.", f"{_TEMPLATES}/start.html"
        findings = partial(check_experiment, experiment, timezone.now()) if experiment.status == Status.DRAFT else ()
        steps = self.steps_of(experiment, "start") if experiment.status == Status.DRAFT else []
        shown = {"findings": findings, "steps": steps}
        return self.confirm(request, experiment, confirmation, act, done, template=template, **shown)

    @button("Stop", permission="change", icon="stop", variant=ActionVariant.DANGER)
    def stop(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._find_for_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Stop {experiment.key} without a winner?",
            (
                "Users are no longer assigned. Code that asks for a variant gets an error.",
                *(() if longest_span(experiment) else ("Events after this moment do not count for the results.",)),
                *_about_flag(experiment, f"uses its other rules again{_other_rules(experiment)}"),
                f"{_describe_reopening(experiment)} To show everyone one variant, ship it instead.",
            ),
            "Stop the experiment",
        )
        chosen = sent_input(request).get("keep_counting", "")
        stop = partial(changes.stop_experiment, clock=timezone.now, keep_counting=chosen == KEEP)
        choices = partial(_window_choices, experiment, chosen)
        act, template = partial(_move, request, experiment, stop), f"{_TEMPLATES}/stop.html"
        done = f"{experiment.key} is stopped.{' Open windows go on counting.' if chosen == KEEP else ''}"
        return self.confirm(request, experiment, confirmation, act, done, template=template, window_choices=choices)

    @button("Reopen", permission="change", icon="replay")
    def reopen(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._find_for_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        winner = experiment.winner
        confirmation = Confirmation(
            f"Reopen {experiment.key}?",
            (
                "It continues as if it had not been stopped. Events since then count, and the results change again.",
                *([f"{winner} is no longer the winner. Users see the variant that they saw before."] if winner else []),
                *_about_flag(
                    experiment, "gets its previous rules back. If it has changed since, the experiment is not reopened"
                ),
            ),
            "Reopen the experiment",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, changes.reopen_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is running again.")

    @button("Ship", permission="change", icon="rocket_launch", variant=ActionVariant.PRIMARY)
    def ship(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Choose the winner. The page shows the objections to each variant."""
        experiment = self._find_for_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        now = timezone.now()
        results = analyse_experiment(experiment, now)
        raised = {
            key: [objection.message for objection in find_objections(results, key, now, keeps_counting=True)]
            for key in experiment.variant_keys
        }
        form = ShipForm(sent_input(request) or None, results=results, objections=raised)

        def act() -> object:
            return changes.stop_experiment(
                key=experiment.key, **form.values, **writer_here(request), clock=timezone.now
            )

        to_all = not experiment.flag or request.POST.get("ship_to") == ShipTo.EVERYONE
        users = "everyone" if to_all else "the audience of the experiment"
        is_counting = request.POST.get("keep_counting") == KEEP
        goes_on = " Open windows go on counting." if is_counting else ""
        done = f"{request.POST.get('winner')} is shipped to {users}. {experiment.key} is stopped.{goes_on}"
        panel, consequences = build_panel(results, outcome_of(results)), _shipping(request, experiment, results)
        context = {"panel": panel, "consequences": consequences, "form": form}
        return self._fill_in(request, experiment, f"Ship a variant of {experiment.key}", act, done, context, "ship")

    @button("New phase", permission="change", icon="tune")
    def new_phase(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change the weights, the percentage or the conditions from now on."""
        experiment = self._find_for_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        form = PhaseForm(sent_input(request) or None, experiment=experiment)

        def act() -> object:
            return open_phase(key=experiment.key, **form.values, **writer_here(request))

        context = {
            "form": form,
            "known_segments": list(Segment.objects.values_list("key", flat=True)),
            "operator_choices": operator_choices(),
        }
        done = f"A new phase of {experiment.key} has started."
        return self._fill_in(request, experiment, f"New phase of {experiment.key}", act, done, context, "new_phase")

    @button("Archive", permission="change", icon="archive")
    def archive(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self.find(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        gives_back = ("Its share of the group is free for other experiments.",) if experiment.group else ()
        confirmation = Confirmation(
            f"Archive {experiment.key}?",
            (
                "Lists no longer show it. Its results and its history are kept.",
                *(gives_back if experiment.status == Status.DRAFT else ()),
                "You can take it out of the archive at any time.",
            ),
            "Archive the experiment",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, archive_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is archived.")

    @button("Unarchive", permission="change", icon="unarchive")
    def unarchive(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self.find(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Take {experiment.key} out of the archive?",
            ("Lists show it again.",),
            "Take it out of the archive",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, unarchive_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is no longer archived.")

    def _find_for_step(self, request: HttpRequest, object_id: str) -> Experiment | None:
        """Return the experiment, or None. Raises PermissionDenied unless the user may change its flag."""
        experiment: Experiment | None = self.find(request, object_id)
        if experiment is not None:
            require_flag(request.user, experiment)
        return experiment

    def _fill_in(
        self,
        request: HttpRequest,
        experiment: Experiment,
        title: str,
        act: Callable[[], object],
        done: str,
        context: dict[str, Any],
        template: str,
    ) -> HttpResponse:
        """Show the form of a step, and call `act` once it is valid. Errors appear at their fields."""
        if not self.has_change_permission(request, experiment):
            raise PermissionDenied
        back, form = self.address_of("change", experiment.pk), context["form"]
        if reason_setting(self, request) is ReasonSetting.REQUIRED:
            form.fields["reason"].required = True
        if request.method == "POST" and form.is_valid():
            try:
                check_environment(request, request.POST.get("opened_in"))
                act()
            except DomainError as refusal:
                form.add_refusal(refusal)
            else:
                self.succeed(request, done)
                return HttpResponseRedirect(back)
        shared = {"original": experiment, "title": title, "back": back}
        return self.page(request, f"{_TEMPLATES}/{template}.html", {**shared, **context})


def _fitting_steps(request: HttpRequest, experiment: Experiment) -> tuple[str, ...]:
    """Return the steps that the experiment can take, and that the user may make it take."""
    is_too_late = experiment.status == Status.STOPPED and not is_reopenable(experiment, timezone.now())
    if experiment.archived_at is not None or is_too_late or not may_write_flag(request.user, experiment):
        return ()
    return _FITTING[Status(experiment.status)]


def _fitting_shelves(experiment: Experiment) -> tuple[str, ...]:
    if experiment.status == Status.RUNNING:
        return ()
    return ("archive",) if experiment.archived_at is None else ("unarchive",)


def _window_choices(experiment: Experiment, chosen: str) -> list[WindowChoice]:
    """Return what a stop without a winner can do to open windows."""
    if experiment.status != Status.RUNNING or longest_span(experiment) is None:
        return []
    return window_choices(analyse_experiment(experiment, timezone.now()), chosen, ships=False)


def _move(request: HttpRequest, experiment: Experiment, move: Callable[..., object]) -> None:
    move(key=experiment.key, reason=reason_of(request), **writer_here(request))


def _about_flag(experiment: Experiment, what: str) -> list[str]:
    return [f"The flag {experiment.flag['key']} {what}."] if experiment.flag else []


def _describe_reopening(experiment: Experiment) -> str:
    condition = ", unless its flag changes" if experiment.flag else ""
    return f"You can reopen it within {REOPENABLE_FOR.days} days{condition}."


def _other_rules(experiment: Experiment) -> str:
    """Say what the flag serves without the experiment."""
    if experiment.status != Status.RUNNING or not experiment.flag:
        return ""
    flag = get_flag(experiment.flag["key"], experiment.environment)
    if not flag.enabled:
        return ". The flag is off and stays off"
    if rules := own_rules(flag.rules):
        return f": {summarise_rules(rules, timezone.now())}"
    served = f"everyone gets {flag.default_variant}" if flag.default_variant else "it is on for everyone"
    return f". It has no other rules, so {served}"


def _shipping(request: HttpRequest, experiment: Experiment, results: Results) -> list[str]:
    environment = current_environment(request).name
    frozen = "" if longest_span(experiment) else " Its results are frozen: later events do not change them."
    return [
        f"The experiment stops with {results.users:,} users.{frozen}",
        "Code that asks for a variant gets the winner for everyone from now on.",
        *_about_flag(experiment, f"serves the winner in {environment} to the users chosen above"),
        _describe_reopening(experiment),
    ]
