"""The checklist before a start: what is checked, the status of each check, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from django.db.models import Sum

from config.documents import Document
from config.errors import DomainError, ValidationFailed
from config.models import Environment
from events.counts import storage
from events.models import EventCount
from experiments.lifecycle.affected_users import affected_by_start, describe_affected
from experiments.lifecycle.flag_rule import check_flag
from experiments.lifecycle.groups import require_free
from experiments.metrics.definition import Definition, definitions_of, never_received, primary_of
from experiments.models import AnalysisMethod, Calibration, Experiment, Status
from experiments.planner.calibration_outcomes import newest_calibrations
from experiments.planner.history import history_of, pace_of, read_current_totals, variant_shares
from experiments.planner.plan import Plan, plan, plan_for
from experiments.planner.question import Question
from experiments.planner.sizes import GuardrailPlan
from experiments.planner.words import describe_days, describe_effect, describe_size
from flags.changes.driven_rules import driving_experiment, own_rules
from flags.models import Flag
from flags.usage.previews import NoSample


class Check(StrEnum):
    PRIMARY_METRIC = "primary_metric"
    METRIC_SEEN = "metric_seen"
    WEIGHTS = "weights"
    FLAG = "flag"
    AFFECTED_USERS = "affected_users"
    GROUP = "group"
    COMMON_USERS = "common_users"
    PLANNED_SIZE = "planned_size"
    MINIMUM_EFFECT = "minimum_effect"
    GUARDRAILS = "guardrails"
    ANALYSIS = "analysis"
    SHORTEST_RUN = "shortest_run"
    LOOKBACK = "lookback"
    CALIBRATION = "calibration"


class Level(StrEnum):
    """The status of a check. It is `unknown` while there is not enough data."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check with its status and a sentence that says why."""

    check: Check
    status: Level
    message: str


Result = tuple[Level, str]


SEEN_WITHIN = timedelta(days=7)
MAX_DAYS = 60
"""A longer duration is a warning: users return on other devices, and seasons change."""
_MAX_NAMED = 5
_FOR_EVERYONE = frozenset({"type", "name", "percentage", "variant", "split", "serves", "salt"})
"""The parts of a rule that do not narrow its audience."""


def check_experiment(experiment: Experiment, now: datetime) -> list[Finding]:
    """Return the findings of all checks. No finding prevents a start."""
    definitions = definitions_of(experiment)
    results: dict[Check, Iterable[Result]] = {
        Check.PRIMARY_METRIC: [_primary(definitions)],
        Check.METRIC_SEEN: _seen(experiment, definitions, now),
        Check.WEIGHTS: [_weights(experiment)],
        Check.FLAG: [_flag(experiment)],
        Check.AFFECTED_USERS: [_affected_users(experiment, now)],
        Check.GROUP: [_group(experiment)],
        Check.COMMON_USERS: [_common_users(experiment)],
        Check.PLANNED_SIZE: [_planned_size(experiment, definitions, now)],
        Check.MINIMUM_EFFECT: [check_minimum_effect(experiment, now)],
        Check.GUARDRAILS: check_guardrails(experiment, definitions, now),
        Check.ANALYSIS: [check_analysis(experiment, definitions)],
        Check.SHORTEST_RUN: [check_shortest_run(experiment)],
        Check.LOOKBACK: [check_lookback(experiment, definitions, now)],
        Check.CALIBRATION: _calibrated(experiment, definitions),
    }
    return [Finding(check, *result) for check, of_check in results.items() for result in of_check]


def _primary(definitions: Sequence[Definition]) -> Result:
    goal = primary_of(definitions)
    if goal is None:
        message = "No metric is a goal, so nothing decides the experiment; add a metric that it should improve."
        return Level.PROBLEM, message
    return Level.OK, f"{goal.key} decides the experiment: it is the first metric that is a goal."


def _seen(experiment: Experiment, definitions: Sequence[Definition], now: datetime) -> Iterator[Result]:
    """Check for each metric whether its events came in the last seven days, or ever."""
    names = {name for definition in definitions for name in definition.events}
    rows = EventCount.objects.filter(environment=experiment.environment, name__in=names)
    lately = rows.filter(quarter__gte=storage.quarter_of(now - SEEN_WITHIN), quarter__lte=storage.quarter_of(now))
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


def _affected_users(experiment: Experiment, now: datetime) -> Result:
    if not experiment.flag:
        return Level.OK, "The experiment drives no flag, so its start does not change a flag for anyone."
    if experiment.status != Status.DRAFT:
        return Level.OK, "The experiment has started already."
    try:
        preview = affected_by_start(experiment, now)
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
    """Return the number of the first rule before the experiment's that always matches everyone, if any."""
    numbered = enumerate(own_rules(flag.rules)[:position], start=1)
    return next((number for number, rule in numbered if _matches_everyone(rule)), None)


def _matches_everyone(rule: Document) -> bool:
    narrowing = (value for name, value in rule.items() if name not in _FOR_EVERYONE)
    return rule.get("percentage") == 100 and all(value in (True, []) for value in narrowing)  # enabled, no conditions


def _place_among(rules: Sequence[Document], position: int) -> str:
    """Say who does not reach the experiment, and what users outside of its audience see."""
    earlier = "the rule" if position == 1 else f"one of the {position} rules"
    before = f" Users whom {earlier} before the experiment matches are not in it." if position else ""
    after = len(rules) - position
    later = "the rule" if after == 1 else f"the {after} rules"
    others = f"go on to {later} after it" if after else "see what the flag serves without it"
    return f"{before} Users outside the audience {others}."


def _prerequisites(flag: Flag, environment: Environment) -> Result:
    """Check the prerequisites of the flag. Users who do not meet them are not in the experiment."""
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
    """Name the running experiments that may share users. This is good to know, and never a problem."""
    running = Experiment.objects.in_environment(experiment.environment).filter(status=Status.RUNNING)
    own_group = experiment.group["key"] if experiment.group else None
    others = running.exclude(pk=experiment.pk).order_by("key").values_list("key", "group")
    common = [key for key, group in others if own_group is None or group is None or group["key"] != own_group]
    if not common:
        return Level.OK, "No running experiment can share users with this one."
    more = f" and {len(common) - _MAX_NAMED} more" if len(common) > _MAX_NAMED else ""
    return Level.OK, f"Running experiments that may share users: {', '.join(common[:_MAX_NAMED])}{more}."


def _planned_size(experiment: Experiment, definitions: Sequence[Definition], now: datetime) -> Result:
    planned = experiment.planned_size
    if experiment.percentage == 0:
        return Level.PROBLEM, "The percentage is 0 %, so no users take part; set a percentage above 0."
    if planned is None:
        return Level.WARNING, "No planned size is set. The planner computes how many users it takes to find an effect."
    pace = _pace(experiment, definitions, now)
    if not pace:
        return Level.UNKNOWN, f"{planned:,} users are planned; the number of users a day is not known yet."
    days = ceil(planned / pace)
    duration = f"{planned:,} users are planned, about {describe_days(days)} at {pace:,.0f} a day"
    if days > MAX_DAYS:
        return Level.WARNING, f"{duration}: more than {MAX_DAYS}. Plan for a larger effect, or include more users."
    return Level.OK, f"{duration}."


def _pace(experiment: Experiment, definitions: Sequence[Definition], now: datetime) -> float | None:
    """Return the users a day of the experiment or, before it has any, from the history of its primary metric.

    They are scaled to the current percentage and group. The effect of the conditions is not known.
    """
    current = read_current_totals(experiment, now)
    if current is not None and (pace := pace_of(current, now)):
        return pace
    goal = primary_of(definitions)
    history = history_of(goal, experiment.environment, now, current) if goal else None
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


_ANY_EFFECT = 0.01
"""The planner needs an effect. Guardrails do not depend on it."""
_WEEK = 7


def check_minimum_effect(experiment: Experiment, now: datetime) -> Result:
    """Check whether the planned users suffice to find the smallest effect of interest."""
    effect, planned = experiment.minimum_effect, experiment.planned_size
    if effect is None:
        message = "No smallest effect of interest is set, so the verdict can never be that there is no difference."
        return Level.WARNING, message
    about = f"The smallest effect of interest is {100 * effect:.4g} %"
    if planned is None:
        return Level.UNKNOWN, f"{about}. Without a planned size, nobody knows whether it would be found."
    answer = _plan(experiment, now)
    if answer is None:
        return Level.UNKNOWN, f"{about}. Past data do not say yet how many users it takes to find it."
    size = plan_for(answer, experiment.analysis)
    takes = f"{about}: {describe_effect(answer.assumptions)}, takes {describe_size(size)} to find"
    if size.users > planned:
        level, message = (
            Level.WARNING,
            f"{takes}, but {planned:,} are planned. Plan for more users, or a larger effect.",
        )
    else:
        level, message = Level.OK, f"{takes}; {planned:,} are planned."
    if answer.with_window is not None and experiment.analysis != AnalysisMethod.FIXED:
        message = f"{message} With a window, it would take {describe_size(answer.with_window)}."
    return level, message


def check_guardrails(experiment: Experiment, definitions: Sequence[Definition], now: datetime) -> Iterator[Result]:
    """Check for each guardrail whether the planned users show it safe if there is no difference."""
    guardrails = [each for each in definitions if each.is_guardrail and not each.is_post_hoc]
    if not guardrails:
        yield Level.OK, "No metric is a guardrail."
        return
    # Without past data of the primary metric, any metric that has some will do: guardrails are planned by their own.
    answers = (_plan(experiment, now, key) for key in (None, *(each.key for each in guardrails)))
    answer = next(filter(None, answers), None)
    plans = {each.definition.key: each for each in answer.guardrails} if answer else {}
    for definition in guardrails:
        yield _check_guardrail(experiment, definition.key, plans.get(definition.key))


def _check_guardrail(experiment: Experiment, key: str, of_guardrail: GuardrailPlan | None) -> Result:
    planned = experiment.planned_size
    if planned is None:
        return Level.UNKNOWN, f"{key}: without a planned size, nobody knows whether it can be shown safe."
    if of_guardrail is None or of_guardrail.always_valid is None:
        return Level.UNKNOWN, f"{key}: past data do not say yet how many users it takes to show it safe."
    size = of_guardrail.always_valid
    about = f"{key}: showing it safe within its margin takes {describe_size(size)}"
    if size.users > planned:
        message = f"{about}, but {planned:,} are planned. Plan for more users, or give it a wider margin"
        return Level.WARNING, f"{message}; no variant is recommended before."
    return Level.OK, f"{about}; {planned:,} are planned."


def check_analysis(experiment: Experiment, definitions: Sequence[Definition]) -> Result:
    """Check whether the users of a fixed analysis all have the same time."""
    if experiment.analysis != AnalysisMethod.FIXED:
        return Level.OK, "The results are safe to read every day."
    message = f"The results decide once, when every variant has its part of the {experiment.planned_size:,} users"
    message = f"{message} that are planned, and the shortest run is over."
    goal = primary_of(definitions)
    if goal is not None and not goal.counts_mature_users:
        missing = f"{goal.key} has no window, so the last of them have hardly any time to convert"
        return Level.WARNING, f"{message} {missing}: give it a window."
    return Level.OK, message


def check_shortest_run(experiment: Experiment) -> Result:
    """Check whether the shortest run covers whole weeks."""
    days = experiment.minimum_days
    if days == 0:
        message = "No shortest run is set, so a variant may be recommended on the first day; 7 days cover a whole week."
        return Level.WARNING, message
    text = f"The experiment runs for at least {days} day{'' if days == 1 else 's'}"
    if days % _WEEK:
        return Level.WARNING, f"{text}, which are no whole weeks: some days of the week count more than others."
    return Level.OK, f"{text}."


def check_lookback(experiment: Experiment, definitions: Sequence[Definition], now: datetime) -> Result:
    """Check whether the look-back has events of the primary metric. Without any, nothing can be adjusted."""
    days, goal = experiment.lookback_days, primary_of(definitions)
    if days == 0:
        return Level.OK, "The results are not adjusted for what users did before their exposure."
    if goal is None:
        return Level.UNKNOWN, "No metric is a goal, so there is nothing to look back at."
    until = experiment.started_at or now
    rows = EventCount.objects.filter(
        environment=experiment.environment,
        name__in=goal.events,
        quarter__gte=storage.quarter_of(until - timedelta(days=days)),
        quarter__lte=storage.quarter_of(until),
    )
    events = rows.aggregate(events=Sum("count"))["events"] or 0
    span = f"in the {days} day{'' if days == 1 else 's'} of the look-back"
    if not events:
        return Level.WARNING, f"{goal.key}: no events {span}, so there is nothing to adjust the results by."
    counted = f"{int(events):,} event{'' if events == 1 else 's'}"
    return Level.OK, f"{goal.key}: {counted} {span}, which can make the intervals narrower."


def _plan(experiment: Experiment, now: datetime, metric: str | None = None) -> Plan | None:
    """Return the plan for a metric, by default the primary one; None if there are not enough past data."""
    effect = None if experiment.minimum_effect and metric is None else _ANY_EFFECT
    try:
        return plan(Question(experiment=experiment.key, mde=effect, metric=metric), experiment.environment, now)
    except ValidationFailed:
        return None
