"""What rules will do without an edit, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from config.change_log.named_users import fill
from flags.explanations.rule_words import describe_rule
from flags.explanations.schedule_words import Period, Rule, periods

_TIMED = frozenset({"startAt", "endAt", "ramp"})


def upcoming_steps(rules: Sequence[Rule], now: datetime, until: datetime) -> Iterator[tuple[datetime, str]]:
    """Yield the times after `now`, up to `until`, at which a rule's share changes, with what it does then."""
    for number, rule in enumerate(rules, 1):
        if _changes_by_itself(rule):
            name = rule.get("name") or f"rule {number}"
            before, *coming = periods(rule, now)
            for period in coming:
                if period.start <= until:
                    yield period.start, fill("{} {}", name, _step(rule, before, period))
                before = period


def next_step(rules: Sequence[Rule], now: datetime) -> datetime | None:
    """Return the next time at which a rule's share changes, if any."""
    return min(
        (period.start for rule in rules if _changes_by_itself(rule) for period in periods(rule, now)[1:]), default=None
    )


def _changes_by_itself(rule: Rule) -> bool:
    """Return whether a rule may have a schedule. Most rules have none, and there may be thousands."""
    return not rule.keys().isdisjoint(_TIMED) and bool(rule.get("enabled", True))


def _step(rule: Rule, before: Period, period: Period) -> str:
    if not before.share:
        return fill("starts: {}", describe_rule(rule, period.start))
    return f"goes to {period.share:g} %" if period.share else "ends"
