"""When a rule is in force, and for which share of its audience, in words: `30 % now, 50 % from Friday`.

The words come from periods, and each period from the thresholds and bounds that the engine applies. Pure: the moment
that the words are true for is an argument.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from config.change_log.named_users import fill
from flags.engine.timestamps import parse_timestamp
from flags.words.moments import describe_coming, describe_end, describe_moment, describe_start

_MOST_PERIODS = 4
_ALL = 100

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Period:
    """A share of the rule's audience, in percent, that the rule matches from a moment on."""

    start: datetime
    share: float


@dataclass(frozen=True, slots=True)
class Wording:
    """The moment for which words are true, and how they are put.

    `is_record`: somebody reads them later, so they name dates instead of `now` and days of the week. `is_sentence`:
    they end a sentence such as `on for users whose plan equals pro`, where a list has `plan equals pro`.
    """

    at: datetime
    is_record: bool = False
    is_sentence: bool = False


def ended_at(rule: Rule, at: datetime) -> datetime | None:
    """Return when the rule ended by its schedule, or None if it has not."""
    end = _bound(rule, "endAt")
    return end if end is not None and end <= at else None


def matches_nobody(rule: Rule, at: datetime) -> bool:
    """Return whether the rule matches nobody at the moment, nor later by its schedule and its ramp.

    It is false for the rule of an experiment: a flag without other rules is on for users outside the experiment.
    """
    return rule.get("type") != "experiment" and not any(period.share for period in periods(rule, at))


def describe_ended(end: datetime, at: datetime) -> str:
    """Return `ended 2 Mar 2025`."""
    return f"ended {describe_end(end, at)}"


def periods(rule: Rule, at: datetime) -> list[Period]:
    """Return the share at the moment, and each later one from the moment when it applies."""
    moments = [at, *sorted({moment for moment in _moments(rule) if moment > at})]
    found: list[Period] = []
    for moment in moments:
        share = _share_at(rule, moment)
        if not found or found[-1].share != share:
            found.append(Period(moment, share))
    return found


def describe_schedule(rule: Rule, users: str, users_of_share: str, wording: Wording, *, is_long: bool) -> str:
    """Return whom the rule matches, and from when until when: `25 % of everyone from 26 Nov 2026, 09:00 UTC`.

    `users` describes the audience, `users_of_share` the same after `25 % of`. A comma comes before moments if the
    description `is_long`.
    """
    if (end := ended_at(rule, wording.at)) is not None:
        share = _ramped_share(rule, end, bisect_left)  # the last one before it ended
        return fill("{}, {}", _share_of(share, users, users_of_share), describe_ended(end, wording.at))
    coming = periods(rule, wording.at)
    start = "" if coming[0].share or len(coming) == 1 else f"from {describe_start(coming[1].start)}"
    shares = coming[1:] if start else coming
    until = "" if shares[-1].share or len(shares) == 1 else f"until {describe_moment(shares[-1].start)}"
    shares = shares[:-1] if until else shares
    if len(shares) > 1:
        whose = "" if users == "everyone" else fill("{}: ", users)
        return fill("{}{}{}", whose, ", ".join(_steps(shares, wording)), f", {until}" if until else "")
    when = " ".join(filter(None, (start, until)))
    text = _share_of(shares[0].share, users, users_of_share)
    return fill("{}{}{}", text, ", " if is_long else " ", when) if when else text


def describe_ramp(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the steps of a ramp as they were written: `30 % from 20 Nov 2026, 50 % from 27 Nov 2026`."""
    return ", ".join(map(describe_step, steps))


def describe_step(step: Mapping[str, Any]) -> str:
    return f"{step['percentage']:g} % from {describe_start(parse_timestamp(step['at']))}"


def _steps(shares: Sequence[Period], wording: Wording) -> Iterator[str]:
    shown = shares if len(shares) <= _MOST_PERIODS else shares[: _MOST_PERIODS - 1]
    for period in shown:
        yield f"{period.share:g} %{_from(period.start, wording)}"
    if more := len(shares) - len(shown):
        yield f"and {more} more steps to {shares[-1].share:g} %{_from(shares[-1].start, wording)}"


def _from(start: datetime, wording: Wording) -> str:
    if start <= wording.at:
        return "" if wording.is_record else " now"
    return f" from {describe_start(start) if wording.is_record else describe_coming(start, wording.at)}"


def _share_of(share: float, users: str, users_of_share: str) -> str:
    return users if share == _ALL else fill("{} % of {}", f"{share:g}", users_of_share)


def _moments(rule: Rule) -> Iterator[datetime]:
    for name in ("startAt", "endAt"):
        if (moment := _bound(rule, name)) is not None:
            yield moment
    for step in rule.get("ramp", ()):
        yield parse_timestamp(step["at"])


def _bound(rule: Rule, name: str) -> datetime | None:
    return parse_timestamp(rule[name]) if name in rule else None


def _share_at(rule: Rule, moment: datetime) -> float:
    start, end = _bound(rule, "startAt"), _bound(rule, "endAt")
    is_in_force = (start is None or start <= moment) and (end is None or moment < end)
    return _ramped_share(rule, moment, bisect_right) if is_in_force else 0


def _ramped_share(rule: Rule, moment: datetime, steps_before: Callable[[list[datetime], datetime], int]) -> float:
    ramp = rule.get("ramp", ())
    shares: list[float] = [rule.get("percentage", 0 if ramp else _ALL), *(step["percentage"] for step in ramp)]
    return shares[steps_before([parse_timestamp(step["at"]) for step in ramp], moment)]
