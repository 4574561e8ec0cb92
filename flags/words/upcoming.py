"""What the rules of a flag will do by themselves, in words.

Pure: no page, no database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from flags.words.rules import describe_rule
from flags.words.schedules import Period, Rule, periods

_TIMED = frozenset({"startAt", "endAt", "ramp"})


def upcoming_steps(rules: Sequence[Rule], now: datetime, until: datetime) -> Iterator[tuple[datetime, str]]:
    """Yield each moment after `now`, up to `until`, at which a rule matches another share, and what it does then."""
    for number, rule in enumerate(rules, 1):
        # Most of thousands of rules never change by themselves.
        if not rule.keys().isdisjoint(_TIMED) and rule.get("enabled", True):
            name = rule.get("name") or f"rule {number}"
            before, *coming = periods(rule, now)
            for period in coming:
                if period.start <= until:
                    yield period.start, f"{name} {_step(rule, before, period)}"
                before = period


def _step(rule: Rule, before: Period, period: Period) -> str:
    if not before.share:
        return f"starts: {describe_rule(rule, period.start)}"
    return f"goes to {period.share:g} %" if period.share else "ends"
