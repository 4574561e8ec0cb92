"""What the page of one user shows of flags and experiments, and why. Nothing is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator

from config import snapshot as system
from config.models import Environment
from experiments.admin.results.exposed_users import ORIGINS
from experiments.exposures.assignment import REASONS, Assignment, get_variants
from experiments.models import Experiment, Exposure, Origin, Status
from flags import exposures, snapshot
from flags.engine.conditions import USER_ID
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.explanations.trace_words import DescribedTrace, describe_trace
from flags.explanations.tracing import explain
from flags.models import Flag
from flags.usage.sources import attributes_of

STATES = {"": "All", "on": "On", "off": "Off"}
_A_PAGE = 25
_MAX_NAMES = 12


@dataclass(frozen=True, slots=True)
class FlagRow:
    """A flag for the user.

    `id` is that of its page, `answer` the variant that it serves, if it has variants, and `rule` the title of the
    deciding rule, if any.
    """

    key: str
    id: Any
    answer: str
    trace: DescribedTrace

    @property
    def rule(self) -> str:
        return next((rule.title for rule in self.trace.rules if rule.tone == "served"), "")


@dataclass(frozen=True, slots=True)
class UserFlags:
    """A page of the flags that match the search. `on` of `total` flags are on for the user."""

    rows: Sequence[FlagRow]
    page: Page[str]
    on: int
    total: int


def context_of(environment: Environment, user_id: str, attributes: Mapping[str, Any], now: datetime) -> Context:
    """Return the context that evaluates flags for the user now, with the variants that experiments have shown."""
    system.refresh()
    context = Context(user_id, attributes, snapshot.configuration(environment.key), now)
    if context.configuration.experiments:
        exposures.load_assignments(environment, context)
    return context


def evaluate_flags(context: Context, environment: Environment, *, search: str, state: str, page: str) -> UserFlags:
    """Evaluate all flags that are not archived, and describe those of one page, with one query.

    `search` is a part of the key in any case. `state` is one of STATES.
    """
    archived, flags = snapshot.compiled.state.archived, context.configuration.flags
    is_on = {key: evaluate(flag, context).enabled for key, flag in flags.items() if key not in archived}
    wanted = [
        key for key, on in is_on.items() if search.casefold() in key.casefold() and (not state or on is (state == "on"))
    ]
    shown = Paginator(wanted, _A_PAGE).get_page(page)
    return UserFlags(_describe_flags(context, environment, list(shown)), shown, sum(is_on.values()), len(is_on))


def _describe_flags(context: Context, environment: Environment, keys: Sequence[str]) -> list[FlagRow]:
    ids = dict(Flag.objects.filter(key__in=keys).values_list("key", "pk"))
    flags = context.configuration.flags
    traces = {key: explain(flags[key], context).as_json() for key in keys}
    return [
        FlagRow(key, ids.get(key), describe_answer(trace), describe_trace(trace, environment.name))
        for key, trace in traces.items()
    ]


def describe_answer(trace: Mapping[str, Any]) -> str:
    """Return the variant, with its value if that is a string or a number and differs from the key."""
    if "variant" not in trace:
        return ""
    variant, value = trace["variant"], trace["value"]
    return str(variant) if isinstance(value, bool | dict | list) or value == variant else f"{variant}: {value}"


def attributes_to_ask_for(configuration: Configuration) -> list[str]:
    """Return the attributes that rules and segments of the environment read most, in alphabetical order."""
    counts = Counter(name for name in attributes_of(configuration) if name != USER_ID)
    return sorted(name for name, _ in counts.most_common(_MAX_NAMES))


_LONG = ("definitions", "registration", "decision", "conditions", "metrics", "hypothesis", "description")
_TONES = {Status.DRAFT: "off", Status.RUNNING: "on", Status.STOPPED: "off"}


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """An experiment for the user.

    `counts` says whether the user counts, or None while that is open, and `words` says why. `forced` is the variant
    that is forced for the user, if any.
    """

    experiment: Experiment
    variant: str
    exposed_at: datetime | None
    counts: bool | None
    words: str
    forced: str

    @property
    def tone(self) -> str:
        return _TONES[Status(self.experiment.status)]


def experiments_of(environment: Environment) -> list[Experiment]:
    """Return all experiments of an environment, the newest first, without large columns."""
    return list(Experiment.objects.in_environment(environment).defer(*_LONG))


def describe_experiments(
    context: Context, environment: Environment, experiments: Sequence[Experiment], exposures: Sequence[Exposure]
) -> list[ExperimentRow]:
    """Return the experiments with an exposure or a forced variant of the user, and those that run.

    For a running experiment that the user has not met, it is computed what would happen, and not recorded.
    """
    exposed = {exposure.experiment_id: exposure for exposure in exposures}
    variants: Mapping[str, Assignment] = {}
    if any(experiment.status == Status.RUNNING for experiment in experiments):
        variants = get_variants(
            environment=environment,
            user_id=context.user_id,
            now=context.now,
            attributes=context.attributes,
            record=False,
        )
    return list(_experiment_rows(context.user_id, experiments, exposed, variants))


def _experiment_rows(
    user_id: str,
    experiments: Sequence[Experiment],
    exposed: Mapping[UUID, Exposure],
    variants: Mapping[str, Assignment],
) -> Iterator[ExperimentRow]:
    for experiment in experiments:
        forced = experiment.forced_variants.get(user_id, "")
        exposure = exposed.get(experiment.pk)
        if exposure is not None:
            counts, words = _describe_exposure(experiment, exposure)
            yield ExperimentRow(experiment, exposure.variant, exposure.exposed_at, counts, words, forced)
        elif forced:
            words = "The variant is forced, so the user does not count."
            yield ExperimentRow(experiment, forced, None, False, words, forced)
        elif (assignment := variants.get(experiment.key)) is not None and experiment.status == Status.RUNNING:
            yield ExperimentRow(experiment, assignment.variant, None, *_describe_assignment(assignment), "")


def _describe_exposure(experiment: Experiment, exposure: Exposure) -> tuple[bool, str]:
    if experiment.stopped_at is not None and exposure.exposed_at > experiment.stopped_at:
        return False, "The exposure came after the stop, so the user does not count."
    words = f"Counts for {exposure.variant}; {ORIGINS[Origin(exposure.origin)]}."
    if exposure.is_in_several_variants:
        words += " The user has also seen another variant. Only the first one counts."
    return True, words


def _describe_assignment(assignment: Assignment) -> tuple[bool | None, str]:
    if assignment.reason is None:
        return None, f"Not exposed yet. The user would see {assignment.variant}, and count from then on."
    return False, f"Does not count: {REASONS[assignment.reason]}"
