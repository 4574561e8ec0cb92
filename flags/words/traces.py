"""What `flags.engine.tracing` tells, in sentences that a person reads. Pure: it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flags.engine.bucketing import BUCKETS
from flags.words.rules import summarise_condition

Trace = Mapping[str, Any]

_AUDIENCES = {
    "percentage": "A share of everyone",
    "attribute": "Users with certain attributes",
    "segment": "Users of a segment",
    "users": "Certain users",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """Where a user falls among all, and how far a share reaches; both in percent."""

    share: float
    position: float


@dataclass(frozen=True, slots=True)
class ToldStep:
    """One test: what is asked, what was found, and the tests that it consists of."""

    text: str
    found: str
    passed: bool
    bar: Bar | None = None
    parts: Sequence[ToldStep] = ()


@dataclass(frozen=True, slots=True)
class ToldRule:
    """One rule: `tone` is served, shadowed or passed (over). `note` is what else decides, in that of an experiment."""

    number: int
    title: str
    tone: str
    verdict: str
    steps: Sequence[ToldStep]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToldTrace:
    """All that there is to say about one evaluation."""

    is_enabled: bool
    decision: str
    why: str
    value: str | None
    prerequisites: Sequence[ToldStep]
    rules: Sequence[ToldRule]


def tell_trace(trace: Trace, environment_name: str) -> ToldTrace:
    served = next((rule["index"] + 1 for rule in trace["rules"] if rule["isServed"]), None)
    return ToldTrace(
        is_enabled=trace["enabled"],
        decision=_decision(trace),
        why=_why(trace, environment_name, served),
        value=_json(trace["value"]) if "variant" in trace else None,
        prerequisites=[_prerequisite(each) for each in trace["prerequisites"]],
        rules=[_rule(each, served, trace["reason"]) for each in trace["rules"]],
    )


def _decision(trace: Trace) -> str:
    state = "On" if trace["enabled"] else "Off"
    return f"{state}, serving {trace['variant']}" if "variant" in trace else state


def _why(trace: Trace, environment_name: str, served: int | None) -> str:
    count = len(trace["rules"])
    unmet = ", ".join(each["flag"] for each in trace["prerequisites"] if not each["isMet"])
    return {
        "disabled": f"The flag is off in {environment_name}, so nothing else counts.",
        "prerequisite_failed": f"It depends on {unmet}, which is not as wanted for this user.",
        "rule_match": f"Rule {served} is the first that takes this user in.",
        "no_rule_match": "No rule takes this user in."
        if count == 1
        else f"None of the {count} rules takes this user in.",
        "default": "The flag is on and has no rules, so it is on for everyone.",
    }[trace["reason"]]


def _prerequisite(told: Trace) -> ToldStep:
    wanted = f", serving {' or '.join(told['variants'])}" if "variants" in told else ""
    if "enabled" not in told:
        found = "there is no such flag"
    else:
        found = f"it is {'on' if told['enabled'] else 'off'}" + (
            f", serving {told['variant']}" if "variant" in told else ""
        )
    return ToldStep(f"{told['flag']} is on{wanted}", found, told["isMet"])


def _rule(told: Trace, served: int | None, reason: str) -> ToldRule:
    tone = "served" if told["isServed"] else "shadowed" if told["matches"] else "passed"
    return ToldRule(
        number=told["index"] + 1,
        title=_title(told),
        tone=tone,
        verdict=_verdict(told, tone, served, reason),
        steps=[_step(each) for each in told.get("assignment", told)["steps"]],
        note=_assignment(told["assignment"]) if "assignment" in told else "",
    )


def _title(told: Trace) -> str:
    if "assignment" in told:
        return f"The experiment {told['assignment']['experiment']}"
    return str(told["name"]) if "name" in told else _AUDIENCES.get(told["type"], "")


def _assignment(told: Trace) -> str:
    """Whether the user is in the experiment, and why it is this variant."""
    variant = told["variant"]
    if "reason" in told:
        return f"{_EXCLUSIONS[told['reason']]}, so the user sees {variant} and does not count for the experiment."
    if "stored" in told:
        return f"The user was shown {told['stored']} before, and stays in the experiment with it."
    weights = _weights(told["split"])
    return f"The user is in the experiment with {variant}: bucket {told['bucket']:,} of the split {weights}."


_EXCLUSIONS = {
    "forced": "The variant is forced for this user",
    "not_in_group": "The user is in another part of the group",
    "not_targeted": "The user does not meet the conditions",
    "not_in_traffic": "The user does not fall into the share",
}


def _weights(split: Sequence[Mapping[str, Any]]) -> str:
    return " / ".join(f"{part['variant']} {part['weight']:g}" for part in split)


def _verdict(told: Trace, tone: str, served: int | None, reason: str) -> str:
    serves = told.get("serves", {})
    what = f", serves {serves['variant']}" if "variant" in serves else ""
    if "assignment" in told and not what:
        what = f", serves {'on' if serves['enabled'] else 'off'}"
    if "split" in serves and "bucket" in serves:
        what += f" (bucket {serves['bucket']:,} of the split {_weights(serves['split'])})"
    if tone == "served":
        return f"decides{what}"
    if tone == "passed":
        return "does not take the user in"
    why = f"rule {served} comes first" if served else _CLOSED.get(reason, "it was not asked")
    return f"would take the user in, but {why}"


_CLOSED = {"disabled": "the flag is off", "prerequisite_failed": "a prerequisite is missing"}


def _step(told: Trace) -> ToldStep:
    return _STEPS[told["test"]](told)


def _switch(told: Trace) -> ToldStep:
    return ToldStep("The rule is in use", "" if told["passed"] else "it is switched off", told["passed"])


def _schedule(told: Trace) -> ToldStep:
    bounds = [
        f"{word} {_minute(told[name])}" for word, name in (("from", "startAt"), ("until", "endAt")) if name in told
    ]
    return ToldStep(f"It runs {' '.join(bounds)} UTC", f"it is {_minute(told['now'])} UTC", told["passed"])


def _users(told: Trace) -> ToldStep:
    count = told["userCount"]
    text = f"The user is one of the {count:,} listed" if count > 1 else "It is the one user listed"
    return ToldStep(text, "", told["passed"])


def _segment(told: Trace) -> ToldStep:
    return ToldStep(
        f"The user is in segment {told['segment']}", _membership(told), told["passed"], parts=list(_members(told))
    )


def _membership(told: Trace) -> str:
    if not told.get("exists", True):
        return "there is no such segment"
    if told.get("isListed"):
        return "listed there"
    return "meets its conditions" if told["isMember"] else "not listed, and does not meet all its conditions"


def _members(told: Trace) -> Iterator[ToldStep]:
    """The segment's own conditions, where they decide."""
    if not told.get("isListed"):
        yield from (_step(each) for each in told.get("conditions", ()))


def _condition(told: Trace) -> ToldStep:
    text = summarise_condition(told) + (" (in any case)" if told.get("ignoreCase") else "")
    if "segment" in told:
        return ToldStep(text, _membership(told["segment"]), told["passed"], parts=list(_members(told["segment"])))
    found = (
        f"{told['attribute']} is {_json(told['actual'])}" if "actual" in told else f"{told['attribute']} is not known"
    )
    return ToldStep(text, found, told["passed"])


def _share(told: Trace) -> ToldStep:
    of = f" by {told['bucketBy']}" if "bucketBy" in told else ""
    text = f"The user falls into {told['percentage']:g} %{of}"
    if "bucket" not in told:
        return ToldStep(text, f"{told['bucketBy']} is neither a text nor a whole number", told["passed"])
    found = f"bucket {told['bucket']:,} of {BUCKETS:,}; those below {told['threshold']:,} are in"
    bar = Bar(100 * told["threshold"] / BUCKETS, 100 * told["bucket"] / BUCKETS)
    return ToldStep(text, found, told["passed"], bar)


def _group(told: Trace) -> ToldStep:
    text = f"The user falls into {told['from']:g} to {told['to']:g} % of the group {told['group']}"
    return ToldStep(text, f"bucket {told['bucket']:,} of {BUCKETS:,}", told["passed"])


_STEPS = {
    "group": _group,
    "enabled": _switch,
    "schedule": _schedule,
    "users": _users,
    "segment": _segment,
    "condition": _condition,
    "share": _share,
}


def _minute(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ")


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2_000 else f"{text[:2_000]}…"
