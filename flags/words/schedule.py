"""What the rules of a flag will do by themselves, in words.

Pure: no page, no database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from flags.engine.timestamps import parse_timestamp
from flags.words.rules import describe_rule

_TIMED = frozenset({"startAt", "endAt", "ramp"})


def upcoming_steps(
    rules: Sequence[Mapping[str, Any]], after: datetime, until: datetime
) -> Iterator[tuple[datetime, str]]:
    """Yield each moment after `after`, up to `until`, at which a rule starts, ends or ramps, and what it does then."""
    for number, rule in enumerate(rules, 1):
        # Most of thousands of rules never change by themselves.
        if not rule.keys().isdisjoint(_TIMED) and rule.get("enabled", True):
            for at, words in _steps(rule):
                if after < at <= until and _is_in_force(rule, at):
                    yield at, f"{rule.get('name') or f'rule {number}'} {words}"


def _steps(rule: Mapping[str, Any]) -> Iterator[tuple[datetime, str]]:
    if "startAt" in rule:
        start = parse_timestamp(rule["startAt"])
        endless = {name: value for name, value in rule.items() if name != "endAt"}  # its end is a step of its own
        yield start, f"starts: {describe_rule(endless, start)}"
    for step in rule.get("ramp", ()):
        yield parse_timestamp(step["at"]), f"goes to {step['percentage']:g} %"
    if "endAt" in rule:
        yield parse_timestamp(rule["endAt"]), "ends"


def _is_in_force(rule: Mapping[str, Any], at: datetime) -> bool:
    """Return whether the rule is in force then, or ends then. A ramp goes on unseen while it is not."""
    starts = "startAt" not in rule or parse_timestamp(rule["startAt"]) <= at
    return starts and ("endAt" not in rule or at <= parse_timestamp(rule["endAt"]))
