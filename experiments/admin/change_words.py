"""Changes of experiments and metrics as sentences: `Stop the experiment and ship green`. Pure: no page, no database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from config.change_log.named_users import fill, name_user
from config.change_log.sentences import KindWords, change_sentence, describe_user, on_change, plain, some
from config.documents import Document
from experiments.admin.words import describe_definition, describe_experiment_value
from experiments.metrics.definition import Definition
from experiments.models import Direction, MetricType, Role
from flags.explanations.rule_words import describe_condition

# experiments


def _headline(before: Document, after: Document, _now: datetime) -> tuple[Sequence[str], Collection[str]]:
    """Sum up a step of an experiment: its start or the undo of it, its stop, or its reopening."""
    step = (before.get("status"), after.get("status"))
    if step == ("draft", "running"):
        return ["Start the experiment"], ("status", "startedAt")
    if step == ("running", "stopped"):
        return [_end(after)], ("status", "stoppedAt", "winner")
    if step == ("running", "draft"):
        return ["Take back the start of the experiment"], ("status", "startedAt")
    if step == ("stopped", "running"):
        return ["Reopen the experiment"], ("status", "stoppedAt", "winner")
    return (), ()


def _end(after: Document) -> str:
    winner = after.get("winner")
    if not winner:
        return "Stop the experiment without a winner"
    if after.get("flag"):
        return f"Stop the experiment and ship {winner}"
    return f"Stop the experiment with {winner} as the winner"


def _phases(old: Any, new: Any, now: datetime) -> Iterator[str]:
    before, after = ([_phase(phase, now) for phase in phases or []] for phases in (old, new))
    for number, words in enumerate(after, 1):
        if number > len(before):
            yield fill("Open phase {}: {}", str(number), words)
        elif (old or [])[number - 1] != (new or [])[number - 1]:
            yield from change_sentence(f"phase {number}", before[number - 1], words)
    for number, words in enumerate(before[len(after) :], len(after) + 1):
        yield fill("Remove phase {}: {}", str(number), words)


def _phase(phase: Document, now: datetime) -> str:
    return describe_experiment_value("phases[0]", phase, now) or ""


def _definitions(old: Any, new: Any, _now: datetime) -> Iterator[str]:
    before, after = ({each["key"]: each for each in documents or []} for documents in (old, new))
    for key, as_json in after.items():
        words = describe_definition(Definition.parse(as_json))
        if key not in before:
            yield f"Settle what {key} measures: {words}"
        elif before[key] != as_json:
            yield from change_sentence(f"what {key} measures", _defined(before[key]), words)
    yield from (f"Remove what {key} measures: {_defined(before[key])}" for key in before if key not in after)


def _defined(as_json: Document) -> str:
    return describe_definition(Definition.parse(as_json))


def _forced(old: Any, new: Any, _now: datetime) -> Iterator[str]:
    before, after = old or {}, new or {}
    forced = [
        fill("{} to {}", name_user(user), variant) for user, variant in after.items() if before.get(user) != variant
    ]
    freed = [user for user in before if user not in after]
    if forced:
        yield fill("Force {}", some(forced))
    if freed:
        yield fill("Stop forcing a variant for {}", some(freed, describe_user))


def _decision(old: Any, new: Any, now: datetime) -> Iterator[str]:
    if new:
        yield f"Record the decision: {_words('decision', new, now)}"
    else:
        yield f"Withdraw the decision: {_words('decision', old, now)}"


def _registration(old: Any, new: Any, now: datetime) -> Iterator[str]:
    if old and new:
        yield from change_sentence("the registered plan", *(_words("registration", each, now) for each in (old, new)))
    else:
        yield f"{'Register' if new else 'Remove'} the plan: {_words('registration', new or old, now)}"


def _words(path: str, value: Any, now: datetime) -> str:
    return describe_experiment_value(path, value, now) or plain(value)


_STATUS = {"draft": "a draft", "running": "running", "stopped": "stopped"}


def _value(path: str, value: Any, now: datetime) -> str | None:
    match path:
        case "status":
            return _STATUS.get(value)
        case "percentage":
            return f"{value:g} %"
        case "winner":
            return str(value)
        case "minimumDays" | "lookbackDays":
            return f"{value:,} day{'' if value == 1 else 's'}"
        case "plannedSampleSize" | "tuningSampleSize" | "givenTuningSampleSize":
            return f"{value:,} users"
    return describe_experiment_value(path, value, now)


EXPERIMENT_WORDS = KindWords(
    labels={
        **{"description": "the description", "status": "the state", "metrics": "the metrics", "owner": "the owner"},
        **{"variants": "the split", "percentage": "the share of users", "conditions": "the conditions"},
        **{"group": "the group", "flag": "the flag that it drives", "hypothesis": "the hypothesis"},
        **{"plannedSampleSize": "the planned sample size", "minimumEffect": "the smallest effect of interest"},
        **{"analysis": "the analysis", "minimumDays": "the shortest run", "lookbackDays": "the look-back"},
        **{"tuningSampleSize": "the size for which the tests are tuned", "winner": "the winner"},
        **{"givenTuningSampleSize": "the tuning sample size", "startedAt": "the start", "stoppedAt": "the end"},
        "countsUntil": "the time until which windows go on counting",
    },
    describe_value=_value,
    headline=_headline,
    sentences={
        "archivedAt": on_change("Archive", "Restore"),
        "decision": _decision,
        "phases": _phases,
        "registration": _registration,
        "definitions": _definitions,
        "forcedVariants": _forced,
    },
    missing={"percentage": "100 %", "analysis": "sequential", "conditions": "none"},
)

# metrics

_MEASURED = (
    *("type", "event", "property", "currency", "denominator", "where", "steps", "quantile"),
    *("windowHours", "delayHours", "fromDay", "toDay", "capValue", "capPercentile"),
)
"""The properties that `describe_definition` covers."""


def _meaning(before: Document, after: Document, _now: datetime) -> tuple[Sequence[str], Collection[str]]:
    """Say what the metric measured before and measures after, which covers all of these properties."""
    old, new = (describe_definition(Definition.parse(as_json)) for as_json in (before, after))
    return ([], ()) if old == new else ([f"Change what it measures from “{old}” to “{new}”"], _MEASURED)


_METRIC_TABLES: Mapping[str, Mapping[str, str]] = {
    "type": {str(kind): kind.label for kind in MetricType},
    "direction": {str(way): way.label.lower() for way in Direction},
    "role": {str(role): role.label.partition(":")[0].lower() for role in Role},
}


def _metric_value(path: str, value: Any, _now: datetime) -> str | None:
    match path:
        case "type" | "direction" | "role":
            return _METRIC_TABLES[path].get(value)
        case "margin" | "quantile":
            return f"{100 * value:.4g} %"
        case "capPercentile":
            return f"{value:g} %"
        case "windowHours" | "delayHours":
            return f"{value:,} hour{'' if value == 1 else 's'}"
        case "fromDay" | "toDay":
            return f"day {value}"
        case "where":
            return _where(value)
        case "denominator":
            return _quantity(value)
        case "steps":
            return ", then ".join(map(_quantity, value))
    return None


def _quantity(as_json: Document) -> str:
    measured = f"{as_json['property']} of " if as_json.get("property") else ""
    currency = f" in {as_json['currency']}" if as_json.get("currency") else ""
    where = f" where {_where(as_json['where'])}" if as_json.get("where") else ""
    return f"{measured}{as_json['event']}{currency}{where}"


def _where(conditions: Sequence[Document]) -> str:
    return " and ".join(describe_condition({**each, "attribute": each["property"]}) for each in conditions)


def _version(old: Any, new: Any, _now: datetime) -> Iterator[str]:
    if old and new:
        yield f"Make version {new} of the metric"


METRIC_WORDS = KindWords(
    labels={
        **{"description": "the description", "type": "the type", "event": "the event", "property": "the property"},
        **{"currency": "the currency", "denominator": "the denominator", "where": "the conditions"},
        **{"steps": "the steps", "quantile": "the quantile", "windowHours": "the window", "delayHours": "the delay"},
        **{"fromDay": "the first day", "toDay": "the last day", "capValue": "the cap"},
        **{"capPercentile": "the percentile of the cap", "direction": "the direction", "role": "the role"},
        **{"margin": "the margin", "marginAbsolute": "the absolute margin"},
    },
    describe_value=_metric_value,
    headline=_meaning,
    sentences={"version": _version},
)
