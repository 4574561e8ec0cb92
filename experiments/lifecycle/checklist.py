"""The checklist before the start of an experiment: what is checked, its status, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from math import ceil

from django.db.models import Sum

from config.documents import Document
from config.errors import DomainError
from config.models import Environment
from events.counts import storage
from events.models import EventCount
from experiments.lifecycle.affected_users import affected_by_start, describe_affected
from experiments.lifecycle.findings import Check as Check
from experiments.lifecycle.findings import Finding as Finding
from experiments.lifecycle.findings import Level as Level
from experiments.lifecycle.findings import Result
from experiments.lifecycle.flag_rule import check_flag
from experiments.lifecycle.groups import require_free
from experiments.lifecycle.plan_checks import (
    check_analysis,
    check_guardrails,
    check_lookback,
    check_minimum_effect,
    check_shortest_run,
)
from experiments.metrics.definition import Definition, primary_of
from experiments.metrics.documents import definitions_of
from experiments.metrics.reception import never_received
from experiments.models import Calibration, Experiment, Status
from experiments.planner.calibration_outcomes import newest_calibrations
from experiments.planner.history import history_of, pace_of, read_current_totals, variant_shares
from flags.changes.driven_rules import driving_experiment, own_rules
from flags.models import Flag
from flags.usage.previews import NoSample

SEEN_WITHIN = timedelta(days=7)
MOST_DAYS = 60
"""A longer duration is a warning: by then, users return on other devices, and seasons change."""
_MOST_NAMED = 5
_FOR_EVERYONE = frozenset({"type", "name", "percentage", "variant", "split", "serves", "salt"})
"""The parts of a rule that do not narrow its audience, whatever their value."""


def check_experiment(experiment: Experiment, at: datetime) -> list[Finding]:
    """Return the findings of all checks. They do not prevent a start."""
    definitions = definitions_of(experiment)
    results: dict[Check, Iterable[Result]] = {
        Check.PRIMARY_METRIC: [_primary(definitions)],
        Check.METRIC_SEEN: _seen(experiment, definitions, at),
        Check.WEIGHTS: [_weights(experiment)],
        Check.FLAG: [_flag(experiment)],
        Check.AFFECTED_USERS: [_affected_users(experiment, at)],
        Check.GROUP: [_group(experiment)],
        Check.COMMON_USERS: [_common_users(experiment)],
        Check.PLANNED_SIZE: [_planned_size(experiment, definitions, at)],
        Check.MINIMUM_EFFECT: [check_minimum_effect(experiment, at)],
        Check.GUARDRAILS: check_guardrails(experiment, definitions, at),
        Check.ANALYSIS: [check_analysis(experiment)],
        Check.SHORTEST_RUN: [check_shortest_run(experiment)],
        Check.LOOKBACK: [check_lookback(experiment, definitions, at)],
        Check.CALIBRATION: _calibrated(experiment, definitions),
    }
    return [Finding(check, *result) for check, of_check in results.items() for result in of_check]


def _primary(definitions: Sequence[Definition]) -> Result:
    goal = primary_of(definitions)
    if goal is None:
        message = "No metric is a goal, so nothing decides the experiment; add a metric that it should improve."
        return Level.PROBLEM, message
    return Level.OK, f"{goal.key} decides the experiment: it is the first metric that is a goal."


def _seen(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Iterator[Result]:
    """Check for each metric whether its events happened within the last seven days, or ever."""
    names = {name for definition in definitions for name in definition.events}
    rows = EventCount.objects.filter(environment=experiment.environment, name__in=names)
    lately = rows.filter(quarter__gte=storage.quarter_of(at - SEEN_WITHIN), quarter__lte=storage.quarter_of(at))
    seen = dict(lately.values_list("name").annotate(sum=Sum("count")).filter(sum__gt=0).order_by())
    never = never_received(definitions, experiment.environment)
    for definition in definitions:
        if unknown := sorted(never.intersection(definition.events)):
            message = f"{definition.key}: no event {', '.join(unknown)} was ever received; check the spelling, and that"
            yield Level.PROBLEM, f"{message} it is tracked."
            continue
        missing = sorted(name for name in definition.events if name not in seen)
        if missing:
            message = f"{definition.key}: no event {', '.join(missing)} in the last 7 days; check that it is tracked."
            yield Level.WARNING, message
        else:
            counts = ", ".join(f"{int(seen[name]):,} of {name}" for name in sorted(definition.events))
            yield Level.OK, f"{definition.key}: events in the last 7 days: {counts}."


def _weights(experiment: Experiment) -> Result:
    shares = variant_shares(experiment)
    split = ", ".join(f"{key} {float(share):.1%}" for key, share in shares.items()).replace("%", " %")
    without_users = [key for key in experiment.variant_keys if key not in shares]
    if experiment.variant_keys[0] in without_users:
        return Level.PROBLEM, f"The control gets no users, so there is nothing to compare: {split}."
    if len(shares) == 1:
        return Level.PROBLEM, "Only the control gets users, so there is nothing to compare."
    if without_users:
        return Level.WARNING, f"Variants without users: {', '.join(without_users)}. The split is {split}."
    return Level.OK, f"The split is {split}."


def _flag(experiment: Experiment) -> Result:
    try:
        flag = check_flag(experiment)
    except DomainError as error:
        return Level.PROBLEM, error.message
    if flag is None:
        return Level.OK, "The experiment drives no flag."
    driven_by = driving_experiment(flag.rules)
    if driven_by not in (None, experiment.key):
        return Level.PROBLEM, f"The running experiment {driven_by} drives the flag {flag.key}; stop it first."
    if not flag.enabled:
        where = experiment.environment.key
        return Level.PROBLEM, f"The flag {flag.key} is off in {where}, so nobody sees a variant; turn it on."
    position = (experiment.flag or {}).get("position", 0)
    if taken := _taken_by(flag, position):
        return Level.PROBLEM, f"Rule {taken} of the flag {flag.key} matches everyone, so nobody reaches the experiment."
    if flag.prerequisites:
        return _prerequisites(flag, experiment.environment)
    message = f"The flag {flag.key} is on, no other experiment drives it, and it can serve every variant."
    return Level.OK, f"{message}{_place_among(own_rules(flag.rules), position)}"


def _affected_users(experiment: Experiment, at: datetime) -> Result:
    if not experiment.flag:
        return Level.OK, "The experiment drives no flag, so its start does not change a flag for anyone."
    if experiment.status != Status.DRAFT:
        return Level.OK, "The experiment has started already."
    try:
        preview = affected_by_start(experiment, at)
    except DomainError:
        preview = None
    if preview is None:
        return Level.UNKNOWN, "The experiment cannot drive its flag, so it is not known whom the start affects."
    if isinstance(preview, NoSample):
        return Level.UNKNOWN, preview.meaning
    message = describe_affected(preview, "from the start")
    if missing := ", ".join(preview.unknown_attributes):
        return Level.UNKNOWN, f"{message} None of them has the attribute {missing} yet, so there may be more."
    return Level.OK, message


def _taken_by(flag: Flag, position: int) -> int | None:
    """Return the number of the first rule before the experiment's that matches everyone at any time, if any."""
    numbered = enumerate(own_rules(flag.rules)[:position], start=1)
    return next((number for number, rule in numbered if _matches_everyone(rule)), None)


def _matches_everyone(rule: Document) -> bool:
    narrowing = (value for name, value in rule.items() if name not in _FOR_EVERYONE)
    return rule.get("percentage") == 100 and all(value in (True, []) for value in narrowing)  # enabled, no conditions


def _place_among(rules: Sequence[Document], position: int) -> str:
    """Return who does not reach the experiment, and what users outside of its audience see."""
    earlier = "the rule" if position == 1 else f"one of the {position} rules"
    before = f" Users whom {earlier} before the experiment matches are not in it." if position else ""
    after = len(rules) - position
    later = "the rule" if after == 1 else f"the {after} rules"
    others = f"go on to {later} after it" if after else "see what the flag serves without it"
    return f"{before} Users outside the audience {others}."


def _prerequisites(flag: Flag, environment: Environment) -> Result:
    """Check the flag's prerequisites. Users who do not meet them are not in the experiment."""
    keys = [prerequisite["flag"] for prerequisite in flag.prerequisites]
    wanted = Flag.objects.in_environment(environment).filter(key__in=keys).order_by("key")
    if off := [required.key for required in wanted if not required.enabled]:
        needed = f"{', '.join(off)}, off in {environment.key}"
        return Level.PROBLEM, f"The flag {flag.key} requires {needed}, so nobody sees a variant."
    return Level.WARNING, (
        f"Users who do not meet the prerequisites of the flag {flag.key} ({', '.join(keys)}) see no variant, and are "
        "not in the experiment."
    )


def _group(experiment: Experiment) -> Result:
    if experiment.group is None:
        return Level.OK, "The experiment is in no group of mutually exclusive experiments."
    try:
        if experiment.status != Status.STOPPED:  # a stopped experiment has given its part back
            require_free(experiment)
    except DomainError as error:
        return Level.PROBLEM, error.message
    return Level.OK, f"No other experiment overlaps its share of the group {experiment.group['key']}."


def _common_users(experiment: Experiment) -> Result:
    """Name the running experiments that may share users. This is never a problem, only good to know."""
    running = Experiment.objects.in_environment(experiment.environment).filter(status=Status.RUNNING)
    own_group = experiment.group["key"] if experiment.group else None
    others = running.exclude(pk=experiment.pk).order_by("key").values_list("key", "group")
    common = [key for key, group in others if own_group is None or group is None or group["key"] != own_group]
    if not common:
        return Level.OK, "No running experiment can share users with this one."
    more = f" and {len(common) - _MOST_NAMED} more" if len(common) > _MOST_NAMED else ""
    return Level.OK, f"Running experiments that may share users: {', '.join(common[:_MOST_NAMED])}{more}."


def _planned_size(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Result:
    planned = experiment.planned_size
    if experiment.percentage == 0:
        return Level.PROBLEM, "The percentage is 0 %, so no users take part; set a percentage above 0."
    if planned is None:
        return Level.WARNING, "No planned size is set. The planner computes how many users it takes to find an effect."
    pace = _pace(experiment, definitions, at)
    if not pace:
        return Level.UNKNOWN, f"{planned:,} users are planned; the number of users a day is not known yet."
    days = ceil(planned / pace)
    duration = f"{planned:,} users are planned, about {days:,} day{'' if days == 1 else 's'} at {pace:,.0f} a day"
    if days > MOST_DAYS:
        return Level.WARNING, f"{duration}: more than {MOST_DAYS}. Plan for a larger effect, or include more users."
    return Level.OK, f"{duration}."


def _pace(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> float | None:
    """Return the users a day of the experiment or, before it has any, from the history of its primary metric.

    They are scaled to the current percentage and group. The effect of the conditions is not known.
    """
    current = read_current_totals(experiment, at)
    if current is not None and (pace := pace_of(current, at)):
        return pace
    goal = primary_of(definitions)
    history = history_of(goal, experiment.environment, at, current) if goal else None
    return history.pace_in(experiment) if history else None


def _calibrated(experiment: Experiment, definitions: Sequence[Definition]) -> Iterator[Result]:
    """Check for each metric whether a calibration found the promised error rate."""
    newest = newest_calibrations(definitions, experiment.environment)
    for definition in definitions:
        calibration = newest.get(definition.key)
        if calibration is None:
            message = f"{definition.key}: its current definition has not been calibrated yet; an operator can do that."
            yield Level.UNKNOWN, message
        else:
            yield Level.OK if calibration.is_as_promised else Level.PROBLEM, _calibration(calibration)


def _calibration(calibration: Calibration) -> str:
    promised = "as promised" if calibration.is_as_promised else "which is more than promised"
    erred = f"{100 * calibration.false_positives:.1f} % of {calibration.rounds:,} splits"
    return f"{calibration.metric}: false positives in {erred} on {calibration.at:%Y-%m-%d}, {promised}."
