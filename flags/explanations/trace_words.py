"""Traces in words, for the page that tries a flag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.change_log.named_users import fill, name_user
from flags.engine.bucketing import BUCKETS
from flags.engine.conditions import USER_ID
from flags.engine.timestamps import parse_timestamp
from flags.explanations.rule_words import describe_condition
from flags.explanations.schedule_words import describe_ended, describe_start, describe_time

Trace = Mapping[str, Any]

_MAX_CHARACTERS = 2_000
_AUDIENCES = {
    "percentage": "A share of everyone",
    "attribute": "Users with certain attributes",
    "segment": "Users of a segment",
    "users": "Certain users",
}
_EXCLUSIONS = {
    "disabled": "The flag is off",
    "prerequisite_failed": "The user does not meet a prerequisite of the flag",
    "served_by_rule": "An earlier rule matches the user",
    "forced": "The variant is forced for this user",
    "not_in_group": "The user is in another part of the group",
    "not_targeted": "The user does not meet the conditions",
    "not_in_traffic": "The user is not in the percentage",
}
_UNREACHED = {"disabled": "the flag is off", "prerequisite_failed": "a prerequisite is not met"}


@dataclass(frozen=True, slots=True)
class ShareBar:
    """How far a percentage reaches, and where the user is, in percent."""

    share: float
    position: float


@dataclass(frozen=True, slots=True)
class DescribedStep:
    """A test of a rule: what it requires, what it found, and the tests inside it."""

    text: str
    finding: str
    passed: bool
    bar: ShareBar | None = None
    parts: Sequence[DescribedStep] = ()


@dataclass(frozen=True, slots=True)
class DescribedRule:
    """A rule. `note` explains the variant of an experiment.

    `tone` is `served`, `shadowed` (it matches, but another rule decides) or `passed` (it does not match).
    """

    number: int
    title: str
    tone: str
    verdict: str
    steps: Sequence[DescribedStep]
    note: str = ""


@dataclass(frozen=True, slots=True)
class DescribedTrace:
    """An evaluation and everything that led to it. `variant` is empty if the flag has none."""

    is_enabled: bool
    decision: str
    why: str
    variant: str
    value: str | None
    prerequisites: Sequence[DescribedStep]
    rules: Sequence[DescribedRule]


def describe_trace(trace: Trace, environment_name: str) -> DescribedTrace:
    served = next((rule["index"] + 1 for rule in trace["rules"] if rule["isServed"]), None)
    return DescribedTrace(
        is_enabled=trace["enabled"],
        decision=_decision(trace),
        why=_why(trace, environment_name, served),
        variant=trace.get("variant", ""),
        value=_json(trace["value"]) if "variant" in trace else None,
        prerequisites=[_prerequisite(prerequisite) for prerequisite in trace["prerequisites"]],
        rules=[_rule(rule, served, trace["reason"]) for rule in trace["rules"]],
    )


def _decision(trace: Trace) -> str:
    state = "On" if trace["enabled"] else "Off"
    return f"{state}, serving {trace['variant']}" if "variant" in trace else state


def _why(trace: Trace, environment_name: str, served: int | None) -> str:
    count = len(trace["rules"])
    unmet = ", ".join(prerequisite["flag"] for prerequisite in trace["prerequisites"] if not prerequisite["isMet"])
    return {
        "disabled": f"The flag is off in {environment_name}, so its rules are ignored.",
        "prerequisite_failed": f"This user does not meet the prerequisite {unmet}.",
        "rule_match": f"Rule {served} is the first that matches this user.",
        "no_rule_match": f"The rule {_mismatch(trace['rules'][0])}."
        if count == 1
        else f"None of the {count} rules matches this user.",
        "default": "The flag is on, and has no rules but the experiment's, which does not match this user."
        if count
        else "The flag is on and has no rules, so it is on for everyone.",
    }[trace["reason"]]


def _prerequisite(prerequisite: Trace) -> DescribedStep:
    wanted = f", serving {' or '.join(prerequisite['variants'])}" if "variants" in prerequisite else ""
    if "enabled" not in prerequisite:
        finding = "this flag does not exist"
    else:
        served = f", serving {prerequisite['variant']}" if "variant" in prerequisite else ""
        finding = f"it is {'on' if prerequisite['enabled'] else 'off'}{served}"
    return DescribedStep(f"{prerequisite['flag']} is on{wanted}", finding, prerequisite["isMet"])


# rules


def _rule(rule: Trace, served: int | None, reason: str) -> DescribedRule:
    tone = "served" if rule["isServed"] else "shadowed" if rule["matches"] else "passed"
    return DescribedRule(
        number=rule["index"] + 1,
        title=_title(rule),
        tone=tone,
        verdict=_verdict(rule, tone, served, reason),
        steps=[_step(step) for step in rule.get("assignment", rule)["steps"]],
        note=_assignment(rule["assignment"]) if "assignment" in rule else "",
    )


def _title(rule: Trace) -> str:
    if "assignment" in rule:
        return f"Experiment {rule['assignment']['experiment']}"
    return str(rule["name"]) if "name" in rule else _AUDIENCES.get(rule["type"], "")


def _assignment(assignment: Trace) -> str:
    """Return whether the user takes part in the experiment, and why they see this variant."""
    variant = assignment["variant"]
    if assignment.get("reason") == "forced":
        return f"{_EXCLUSIONS['forced']}, so they see {variant} and do not count in the results."
    if "reason" in assignment:
        return f"{_EXCLUSIONS[assignment['reason']]}, so they are not in the experiment."
    if "stored" in assignment:
        return f"The user was exposed to {assignment['stored']} before, and keeps this variant."
    weights = _weights(assignment["split"])
    return f"The user takes part with {variant}: bucket {assignment['bucket']:,} of the split {weights}."


def _weights(split: Sequence[Mapping[str, Any]]) -> str:
    return " / ".join(f"{part['variant']} {part['weight']:g}" for part in split)


def _verdict(rule: Trace, tone: str, served: int | None, reason: str) -> str:
    serves = rule.get("serves", {})
    what = f", serves {serves['variant']}" if "variant" in serves else ""
    if serves and not what and ("assignment" in rule or not serves["enabled"]):
        what = f", serves {'on' if serves['enabled'] else 'off'}"
    if "split" in serves and "bucket" in serves:
        what += f" (bucket {serves['bucket']:,} of the split {_weights(serves['split'])})"
    if tone == "served":
        return f"decides{what}"
    if tone == "passed":
        return _mismatch(rule)
    why = f"rule {served} comes first" if served else _UNREACHED.get(reason, "it was not evaluated")
    return f"would match the user, but {why}"


def _mismatch(rule: Trace) -> str:
    """Return why the rule does not match. A rule that is off or not in force matches nobody."""
    for step in rule.get("assignment", rule)["steps"]:
        if step["test"] == "enabled" and not step["passed"]:
            return "is off"
        if step["test"] == "schedule" and not step["passed"]:
            now = parse_timestamp(step["now"])
            if "startAt" in step and (start := parse_timestamp(step["startAt"])) > now:
                return f"applies from {describe_start(start)}"
            return describe_ended(parse_timestamp(step["endAt"]), now)
    return "does not match this user"


# steps


def _step(step: Trace) -> DescribedStep:
    return _STEPS[step["test"]](step)


def _switch(step: Trace) -> DescribedStep:
    return DescribedStep("The rule is on", "" if step["passed"] else "it is off", step["passed"])


def _schedule(step: Trace) -> DescribedStep:
    bounds = [f"{word} {_time(step[name])}" for word, name in (("from", "startAt"), ("until", "endAt")) if name in step]
    return DescribedStep(
        f"The rule is scheduled {' '.join(bounds)}", f"it is {_time(step['now'][:19])}", step["passed"]
    )


def _users(step: Trace) -> DescribedStep:
    count = step["userCount"]
    text = f"The user is one of the {count:,} listed" if count > 1 else "The user is the one listed"
    return DescribedStep(text, "", step["passed"])


def _segment(step: Trace) -> DescribedStep:
    text = f"The user is in segment {step['segment']}"
    return DescribedStep(text, _membership(step), step["passed"], parts=list(_members(step)))


def _membership(segment: Trace) -> str:
    if not segment.get("exists", True):
        return "this segment does not exist"
    if segment.get("isListed"):
        return "listed there"
    return "meets its conditions" if segment["isMember"] else "not listed, and does not meet all its conditions"


def _members(segment: Trace) -> Iterator[DescribedStep]:
    """Yield the conditions of a segment, unless the user is listed."""
    if not segment.get("isListed"):
        yield from (_step(condition) for condition in segment.get("conditions", ()))


def _condition(step: Trace) -> DescribedStep:
    text = describe_condition(step)
    if "segment" in step:
        segment = step["segment"]
        return DescribedStep(text, _membership(segment), step["passed"], parts=list(_members(segment)))
    actual = fill("is {}", _actual(step)) if "actual" in step else "is not known"
    return DescribedStep(text, fill("{} {}", step["attribute"], actual), step["passed"])


def _actual(step: Trace) -> str:
    words = _json(step["actual"])
    is_user = step["attribute"] == USER_ID and isinstance(step["actual"], str)
    return name_user(step["actual"], words) if is_user else words


def _share(step: Trace) -> DescribedStep:
    unit = f" by {step['bucketBy']}" if "bucketBy" in step else ""
    text = f"The user is in the {step['percentage']:g} %{unit}"
    if "bucket" not in step:
        return DescribedStep(text, f"{step['bucketBy']} is not a text or a whole number", step["passed"])
    finding = f"bucket {step['bucket']:,} of {BUCKETS:,}; buckets below {step['threshold']:,} are in"
    bar = ShareBar(100 * step["threshold"] / BUCKETS, 100 * step["bucket"] / BUCKETS)
    return DescribedStep(text, finding, step["passed"], bar)


def _range(step: Trace) -> DescribedStep:
    unit = f" by {step['bucketBy']}" if "bucketBy" in step else ""
    text = f"The user is in {step['from']:g} to {step['to']:g} % of {step['salt']}{unit}"
    if "bucket" not in step:
        return DescribedStep(text, f"{step['bucketBy']} is not a text or a whole number", step["passed"])
    return DescribedStep(text, f"bucket {step['bucket']:,} of {BUCKETS:,}", step["passed"])


_STEPS = {
    "range": _range,
    "enabled": _switch,
    "schedule": _schedule,
    "users": _users,
    "segment": _segment,
    "condition": _condition,
    "share": _share,
}


def _time(timestamp: str) -> str:
    return describe_time(parse_timestamp(timestamp))


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
