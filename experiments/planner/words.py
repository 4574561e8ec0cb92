"""What a plan asks for and answers, in words, for the planner and the checklist alike."""

from __future__ import annotations

from experiments.planner.question import Assumptions, BaselineKind
from experiments.planner.sizes import Size
from experiments.stats.numbers import format_count, format_number, format_percent

_WEEK = 7


def percent(share: float) -> str:
    """Return a percentage without trailing zeros: `5 %`, `10.5 %`."""
    digits = format_percent(share).removesuffix(" %")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def describe_effect(assumed: Assumptions) -> str:
    """Return `an increase of 5 % in signups, from 10 % to 10.5 % of users`."""
    write = percent if assumed.kind is BaselineKind.RATE else format_number
    after = assumed.baseline * (1 + assumed.mde)
    direction = "an increase" if assumed.mde > 0 else "a decrease"
    what = "" if assumed.metric is None else f" in {assumed.metric}"
    values = f"from {write(assumed.baseline)} to {write(after)} {assumed.unit}".rstrip()
    return f"{direction} of {percent(abs(assumed.mde))}{what}, {values}"


def describe_size(size: Size) -> str:
    """Return `84,690 users in 17 days (2.4 weeks)`; without days if they are not known."""
    users = format_count(size.users, "user")
    return users if size.days is None else f"{users} in {describe_days(size.days)}"


def describe_days(days: int) -> str:
    """Return `17 days (2.4 weeks)`; of less than a week, the days alone."""
    if days < _WEEK:
        return format_count(days, "day")
    weeks = f"{days / _WEEK:,.1f}".removesuffix(".0")
    return f"{format_count(days, 'day')} ({weeks} week{'' if weeks == '1' else 's'})"
