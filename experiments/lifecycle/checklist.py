"""What to look at before an experiment starts: each thing with how it stands, in words for whoever decides to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from django.db.models import Sum

from config.errors import DomainError
from config.models import Environment
from events.counts import storage
from events.models import EventCount
from experiments.design.groups import require_free
from experiments.lifecycle.flag_rule import check_flag
from experiments.metrics.definition import Definition, primary_of
from experiments.metrics.documents import definitions_of
from experiments.models import Calibration, Experiment, Status
from experiments.planner.calibration_outcomes import newest_calibrations
from experiments.planner.current_totals import read_current_totals, variant_shares
from experiments.planner.history import history_of, pace_of
from flags.changes.driven_rules import driving_experiment
from flags.models import Flag

SEEN_WITHIN = timedelta(days=7)
MOST_DAYS = 60
"""An experiment that takes longer is told to be long: by then users come with other devices, and seasons change."""
_MOST_NAMED = 5


class Check(StrEnum):
    """What is looked at, in this order."""

    PRIMARY_METRIC = "primary_metric"
    METRIC_SEEN = "metric_seen"
    WEIGHTS = "weights"
    FLAG = "flag"
    GROUP = "group"
    COMMON_USERS = "common_users"
    PLANNED_SIZE = "planned_size"
    CALIBRATION = "calibration"


class Level(StrEnum):
    """How something stands; `unknown` where nobody can tell yet."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it stands, and why."""

    check: Check
    status: Level
    message: str


Told = tuple[Level, str]


def check_experiment(experiment: Experiment, at: datetime) -> list[Finding]:
    """Look at everything. It refuses nothing: whoever knows better may start all the same."""
    definitions = definitions_of(experiment)
    told: dict[Check, Iterable[Told]] = {
        Check.PRIMARY_METRIC: [_primary(definitions)],
        Check.METRIC_SEEN: _seen(experiment, definitions, at),
        Check.WEIGHTS: [_weights(experiment)],
        Check.FLAG: [_flag(experiment)],
        Check.GROUP: [_group(experiment)],
        Check.COMMON_USERS: [_common_users(experiment)],
        Check.PLANNED_SIZE: [_planned_size(experiment, definitions, at)],
        Check.CALIBRATION: _calibrated(experiment, definitions),
    }
    return [Finding(check, *each) for check, found in told.items() for each in found]


def _primary(definitions: Sequence[Definition]) -> Told:
    goal = primary_of(definitions)
    if goal is None:
        message = "No metric is a goal, so nothing decides the experiment; add one that it should improve."
        return Level.PROBLEM, message
    return Level.OK, f"{goal.key} decides: the first of the metrics that is a goal."


def _seen(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Iterator[Told]:
    """Whether what the metrics look at has happened lately."""
    names = {name for definition in definitions for name in definition.events}
    rows = EventCount.objects.filter(environment=experiment.environment, name__in=names)
    lately = rows.filter(quarter__gte=storage.quarter_of(at - SEEN_WITHIN), quarter__lte=storage.quarter_of(at))
    seen = dict(lately.values_list("name").annotate(sum=Sum("count")).filter(sum__gt=0).order_by())
    for definition in definitions:
        missing = sorted(name for name in definition.events if name not in seen)
        if missing:
            message = f"{definition.key}: no event {', '.join(missing)} in the last 7 days; is it tracked?"
            yield Level.WARNING, message
        else:
            counts = ", ".join(f"{int(seen[name]):,} of {name}" for name in sorted(definition.events))
            yield Level.OK, f"{definition.key}: in the last 7 days there were {counts}."


def _weights(experiment: Experiment) -> Told:
    shares = variant_shares(experiment)
    split = ", ".join(f"{key} {float(share):.1%}" for key, share in shares.items()).replace("%", " %")
    without_users = [key for key in experiment.variant_keys if key not in shares]
    if experiment.variant_keys[0] in without_users:
        return Level.PROBLEM, f"The control gets nobody, so there is nothing to compare: {split}."
    if len(shares) == 1:
        return Level.PROBLEM, "Only the control gets users, so there is nothing to compare."
    if without_users:
        return Level.WARNING, f"{', '.join(without_users)} gets nobody: {split}."
    return Level.OK, f"Users are split by {split}."


def _flag(experiment: Experiment) -> Told:
    try:
        flag = check_flag(experiment)
    except DomainError as error:
        return Level.PROBLEM, error.message
    if flag is None:
        return Level.OK, "It drives no flag."
    driven_by = driving_experiment(flag.rules)
    if driven_by not in (None, experiment.key):
        return Level.PROBLEM, f"The running experiment {driven_by} drives the flag {flag.key}; stop it first."
    if not flag.enabled:
        where = experiment.environment.key
        return Level.PROBLEM, f"The flag {flag.key} is off in {where}, so that nobody sees a variant; turn it on."
    if flag.prerequisites:
        return _prerequisites(flag, experiment.environment)
    return Level.OK, f"The flag {flag.key} is on, free, and has what each variant serves."


def _prerequisites(flag: Flag, environment: Environment) -> Told:
    """Who does not meet them sees no variant, of which Get Variant knows nothing."""
    keys = [prerequisite["flag"] for prerequisite in flag.prerequisites]
    wanted = Flag.objects.in_environment(environment).filter(key__in=keys).order_by("key")
    if off := [required.key for required in wanted if not required.enabled]:
        needed = f"{', '.join(off)}, off in {environment.key}"
        return Level.PROBLEM, f"The flag {flag.key} needs {needed}, so that nobody sees a variant."
    return Level.WARNING, (
        f"Who does not get what the flag {flag.key} needs of {', '.join(keys)} sees no variant; ask for variants by "
        "the flag alone, for Get Variant counts them."
    )


def _group(experiment: Experiment) -> Told:
    if experiment.group is None:
        return Level.OK, "It is in no group of experiments that exclude each other."
    try:
        if experiment.status != Status.STOPPED:  # which has given its part back
            require_free(experiment)
    except DomainError as error:
        return Level.PROBLEM, error.message
    return Level.OK, f"Its part of the group {experiment.group['key']} is its alone."


def _common_users(experiment: Experiment) -> Told:
    """Which running experiments share users. Nothing is wrong with that; one should know."""
    running = Experiment.objects.in_environment(experiment.environment).filter(status=Status.RUNNING)
    mine = experiment.group["key"] if experiment.group else None
    others = running.exclude(pk=experiment.pk).order_by("key").values_list("key", "group")
    common = [key for key, group in others if mine is None or group is None or group["key"] != mine]
    if not common:
        return Level.OK, "No running experiment can have users in common with it."
    more = f" and {len(common) - _MOST_NAMED} more" if len(common) > _MOST_NAMED else ""
    message = f"Users may be in these running experiments at once: {', '.join(common[:_MOST_NAMED])}{more}."
    return Level.OK, message


def _planned_size(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Told:
    planned = experiment.planned_size
    if experiment.percentage == 0:
        return Level.PROBLEM, "It takes in 0 % of its users, and so nobody; set a percentage above 0."
    if planned is None:
        return Level.WARNING, "No planned size is set; GET /v1/planner tells how many users an effect takes."
    pace = _pace(experiment, definitions, at)
    if not pace:
        return Level.UNKNOWN, f"{planned:,} users are planned; how many come a day, nobody knows yet."
    days = ceil(planned / pace)
    duration = f"{planned:,} users are planned, about {days:,} days at {pace:,.0f} a day"
    if days > MOST_DAYS:
        return Level.WARNING, f"{duration}: more than {MOST_DAYS}. Plan for a larger effect, or take in more users."
    return Level.OK, f"{duration}."


def _pace(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> float | None:
    """The users a day: of the experiment, or before it has any, of those who are known by the metric that decides.

    As many as percentage and group let in by now; what the conditions leave, nobody knows.
    """
    current = read_current_totals(experiment, at)
    if current is not None and (pace := pace_of(current, at)):
        return pace
    goal = primary_of(definitions)
    history = history_of(goal, experiment.environment, at, current) if goal else None
    return history.pace_in(experiment) if history else None


def _calibrated(experiment: Experiment, definitions: Sequence[Definition]) -> Iterator[Told]:
    """Whether the tests of the metrics have been seen to err as seldom as they promise."""
    newest = newest_calibrations(definitions, experiment.environment)
    for definition in definitions:
        calibration = newest.get(definition.key)
        if calibration is None:
            message = f"{definition.key}: not calibrated as it is defined now; manage.py simulate_aa does it."
            yield Level.UNKNOWN, message
        else:
            yield Level.OK if calibration.is_as_promised else Level.PROBLEM, _calibration(calibration)


def _calibration(calibration: Calibration) -> str:
    promised = "as promised" if calibration.is_as_promised else "more than promised"
    erred = f"{100 * calibration.false_positives:.1f} % of {calibration.rounds:,} splits"
    return f"{calibration.metric}: its tests erred in {erred} on {calibration.at:%Y-%m-%d}, {promised}."
