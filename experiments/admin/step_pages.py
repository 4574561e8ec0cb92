"""The steps of an experiment in the admin: start, new phase, stop, ship and reopen, each behind a button."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from unfold.enums import ActionVariant

from config.admin.current_environment import check_environment, current_environment
from config.admin.site import Confirmation, DomainAdmin, button, reason_of, writer_here
from config.errors import DomainError
from experiments.admin.results.panel import panel_of
from experiments.admin.step_forms import PhaseForm, ShipForm
from experiments.admin.words import shares_in_words
from experiments.api.permissions import may_write_flag, require_flag
from experiments.lifecycle import changes
from experiments.lifecycle.checklist import check_experiment
from experiments.lifecycle.decisions import is_reopenable
from experiments.lifecycle.new_phase import open_phase
from experiments.lifecycle.objections import objections
from experiments.models import REOPENABLE_FOR, Experiment, Status
from experiments.results.computing import analyse_experiment
from experiments.results.types import Results
from flags.changes.driven_rules import own_rules
from flags.changes.flag_changes import get_flag
from flags.models import Segment
from flags.words.rules import summarise

_TEMPLATES = "admin/experiments/experiment"
_FITTING = {Status.DRAFT: ("start",), Status.RUNNING: ("ship", "new_phase", "stop"), Status.STOPPED: ("reopen",)}


class StepPages(DomainAdmin):
    """Adds the pages to that of an experiment. Whether a step can be taken, the domain says when it is."""

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        experiment = self.find(request, str(object_id))
        fitting = _FITTING.get(experiment.status, ()) if experiment else ()
        if experiment and experiment.status == Status.STOPPED and not is_reopenable(experiment, timezone.now()):
            fitting = ()
        if experiment and not may_write_flag(request.user, experiment):
            fitting = ()
        names = [f"experiments_experiment_{name}" for name in fitting]
        found = {each.action_name: each for each in super().get_actions_detail(request, object_id)}
        return [found[name] for name in names if name in found]

    @button("Start", permission="change", icon="play_arrow", variant=ActionVariant.PRIMARY)
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._to_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Start {experiment.key}?",
            (
                f"From now on users are assigned: {shares_in_words(experiment.variants)}.",
                "Variants, audience and what each metric computes are fixed once it has started; only a new phase "
                "changes whom it takes in, and by which weights, and metrics that are added decide nothing.",
                *_of_flag(experiment, "gets a rule that serves each user what their variant says. Nobody can edit it"),
                "It runs until you stop it.",
            ),
            "Start the experiment",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, changes.start_experiment)
        done, template = f"{experiment.key} is running.", f"{_TEMPLATES}/start.html"
        findings = partial(check_experiment, experiment, timezone.now()) if experiment.status == Status.DRAFT else ()
        return self.confirm(request, experiment, confirmation, act, done, template=template, findings=findings)

    @button("Stop", permission="change", icon="stop", variant=ActionVariant.DANGER)
    def stop(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._to_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Stop {experiment.key} without a winner?",
            (
                "It assigns no more variants; code that asks for one is refused.",
                "Nothing that happens after this moment counts for its results.",
                *_of_flag(experiment, f"goes by its other rules again{_other_rules(experiment)}"),
                f"{_undone(experiment)} To have everybody see one variant, ship that instead.",
            ),
            "Stop the experiment",
        )
        act = partial(_move, request, experiment, changes.stop_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is stopped.")

    @button("Reopen", permission="change", icon="replay")
    def reopen(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._to_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        winner = experiment.winner
        confirmation = Confirmation(
            f"Open {experiment.key} again?",
            (
                "It runs as if it had not been stopped: what was reported meanwhile counts, and results change again.",
                *([f"{winner} is no winner any more; users see the variant that they saw before."] if winner else []),
                *_of_flag(experiment, "gets the rules back that it had. Where it was changed since, nothing is opened"),
            ),
            "Open the experiment again",
            is_dangerous=False,
        )
        act = partial(_move, request, experiment, changes.reopen_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is running again.")

    @button("Ship", permission="change", icon="rocket_launch", variant=ActionVariant.PRIMARY)
    def ship(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Choose the winner, beside what speaks against each; the one of the verdict is chosen already."""
        experiment = self._to_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        results = analyse_experiment(experiment, timezone.now())
        against = {key: [each.message for each in objections(results, key)] for key in experiment.variant_keys}
        form = ShipForm(request.POST or None, experiment=experiment, winner=results.verdict.variant, against=against)

        def act() -> object:
            return changes.stop_experiment(key=experiment.key, **form.values, **writer_here(request))

        done = f"{request.POST.get('winner')} is what everybody sees; {experiment.key} is stopped."
        context = {"panel": panel_of(results), "consequences": _shipping(request, experiment, results), "form": form}
        return self._fill_in(request, experiment, f"Ship a variant of {experiment.key}", act, done, context, "ship")

    @button("New phase", permission="change", icon="tune")
    def new_phase(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Other weights, percentage or conditions from now on."""
        experiment = self._to_step(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        form = PhaseForm(request.POST or None, experiment=experiment)

        def act() -> object:
            return open_phase(key=experiment.key, **form.values, **writer_here(request))

        context = {"form": form, "known_segments": list(Segment.objects.values_list("key", flat=True))}
        done = f"A new phase of {experiment.key} has begun."
        return self._fill_in(request, experiment, f"New phase of {experiment.key}", act, done, context, "new_phase")

    def _to_step(self, request: HttpRequest, object_id: str) -> Experiment | None:
        """The experiment, for who may take a step of it."""
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
        """Ask for what a step needs, and take it; what is refused is told where it was typed."""
        if not self.has_change_permission(request, experiment):
            raise PermissionDenied
        back, form = self.address_of("change", experiment.pk), context["form"]
        if request.method == "POST" and form.is_valid():
            try:
                check_environment(request, request.POST.get("opened_in"))
                act()
            except DomainError as refusal:
                form.add_refusal(refusal)
            else:
                messages.success(request, done)
                return HttpResponseRedirect(back)
        shared = {"original": experiment, "title": title, "back": back}
        return self.page(request, f"{_TEMPLATES}/{template}.html", {**shared, **context})


def _move(request: HttpRequest, experiment: Experiment, move: Callable[..., object]) -> None:
    move(key=experiment.key, reason=reason_of(request), **writer_here(request))


def _of_flag(experiment: Experiment, what: str) -> list[str]:
    return [f"The flag {experiment.flag['key']} {what}."] if experiment.flag else []


def _undone(experiment: Experiment) -> str:
    condition = ", while nobody changes its flag" if experiment.flag else ""
    return f"It can be opened again for {REOPENABLE_FOR.days} days{condition}."


def _other_rules(experiment: Experiment) -> str:
    """What is left of its flag to decide without the experiment."""
    if experiment.status != Status.RUNNING or not experiment.flag:
        return ""
    flag = get_flag(experiment.flag["key"], experiment.environment)
    if not flag.enabled:
        return ". It is off, and stays so"
    if rules := own_rules(flag.rules):
        return f": {summarise(rules)}"
    return f". It has none, so that everybody sees {flag.default_variant or 'it on'}"


def _state(experiment: Experiment) -> str:
    if experiment.status != Status.RUNNING or not experiment.flag:
        return ""
    is_on = get_flag(experiment.flag["key"], experiment.environment).enabled
    return f". It is {'on' if is_on else 'off'}, and stays so"


def _shipping(request: HttpRequest, experiment: Experiment, results: Results) -> list[str]:
    here = current_environment(request).name
    return [
        f"The experiment stops with {results.users:,} users, and its results freeze: what comes later changes nothing.",
        "Everybody who asks for a variant gets the winner.",
        *_of_flag(experiment, f"gets rules that serve the winner in place of all it has in {here}{_state(experiment)}"),
        _undone(experiment),
    ]
