"""Times and schedules in words: `26 Nov 2026, 09:00 UTC`, and `30 % now, 50 % from Friday`.

Periods follow the bounds and thresholds of the engine. Times are never rounded, because rules act at their microsecond.
Each names its time zone, and pages add the reader's own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

from config.change_log.named_users import fill
from flags.engine.timestamps import parse_timestamp, relative_parts

_MAX_PERIODS = 4
_DAYS_BY_NAME = 6
"""How many days ahead the name of a day says which day is meant."""
_ALL = 100

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Period:
    """The share of the audience, in percent, that a rule matches from `start` on."""

    start: datetime
    share: float


@dataclass(frozen=True, slots=True)
class Wording:
    """The time for which words are true, and their form.

    `is_record`: they are read later, so they name dates instead of `now` and days of the week.
    `is_sentence`: they end a sentence: `on for users whose plan equals pro` instead of `plan equals pro`.
    """

    now: datetime
    is_record: bool = False
    is_sentence: bool = False


def ended_at(rule: Rule, now: datetime) -> datetime | None:
    """Return when the schedule ended the rule, or None if it has not."""
    end = _bound(rule, "endAt")
    return end if end is not None and end <= now else None


def matches_nobody(rule: Rule, now: datetime) -> bool:
    """Return whether the rule matches nobody from now on.

    False for the rule of an experiment: a flag without other rules is on for users outside the experiment.
    """
    return rule.get("type") != "experiment" and not any(period.share for period in periods(rule, now))


def describe_ended(end: datetime, now: datetime) -> str:
    """Return `ended 2 Mar 2025`."""
    return f"ended {describe_end(end, now)}"


def periods(rule: Rule, now: datetime) -> list[Period]:
    """Return the current share, and each later share with its start."""
    starts = [now, *sorted({when for when in _times(rule) if when > now})]
    found: list[Period] = []
    for when in starts:
        share = _share_at(rule, when)
        if not found or found[-1].share != share:
            found.append(Period(when, share))
    return found


def describe_schedule(rule: Rule, users: str, users_of_share: str, wording: Wording, *, is_long: bool) -> str:
    """Return whom the rule matches, and when: `25 % of everyone from 26 Nov 2026, 09:00 UTC`.

    `users` describes the audience, `users_of_share` the same after `25 % of`. If the description `is_long`, a comma
    precedes times.
    """
    if (end := ended_at(rule, wording.now)) is not None:
        share = _ramped_share(rule, end, bisect_left)  # the last one before it ended
        return fill("{}, {}", _share_of(share, users, users_of_share), describe_ended(end, wording.now))
    coming = periods(rule, wording.now)
    start = "" if coming[0].share or len(coming) == 1 else f"from {describe_start(coming[1].start)}"
    shares = coming[1:] if start else coming
    until = "" if shares[-1].share or len(shares) == 1 else f"until {describe_time(shares[-1].start)}"
    shares = shares[:-1] if until else shares
    if len(shares) > 1:
        whose = "" if users == "everyone" else fill("{}: ", users)
        return fill("{}{}{}", whose, ", ".join(_steps(shares, wording)), f", {until}" if until else "")
    when = " ".join(filter(None, (start, until)))
    text = _share_of(shares[0].share, users, users_of_share)
    return fill("{}{}{}", text, ", " if is_long else " ", when) if when else text


def describe_ramp(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the steps of a ramp as written: `30 % from 20 Nov 2026, 50 % from 27 Nov 2026`."""
    return ", ".join(f"{step['percentage']:g} % from {describe_start(parse_timestamp(step['at']))}" for step in steps)


def _steps(shares: Sequence[Period], wording: Wording) -> Iterator[str]:
    shown = shares if len(shares) <= _MAX_PERIODS else shares[: _MAX_PERIODS - 1]
    for period in shown:
        yield f"{period.share:g} %{_from(period.start, wording)}"
    if more := len(shares) - len(shown):
        yield f"and {more} more steps to {shares[-1].share:g} %{_from(shares[-1].start, wording)}"


def _from(start: datetime, wording: Wording) -> str:
    if start <= wording.now:
        return "" if wording.is_record else " now"
    return f" from {describe_start(start) if wording.is_record else describe_coming(start, wording.now)}"


def _share_of(share: float, users: str, users_of_share: str) -> str:
    return users if share == _ALL else fill("{} % of {}", f"{share:g}", users_of_share)


def _times(rule: Rule) -> Iterator[datetime]:
    for name in ("startAt", "endAt"):
        if (when := _bound(rule, name)) is not None:
            yield when
    for step in rule.get("ramp", ()):
        yield parse_timestamp(step["at"])


def _bound(rule: Rule, name: str) -> datetime | None:
    return parse_timestamp(rule[name]) if name in rule else None


def _share_at(rule: Rule, when: datetime) -> float:
    start, end = _bound(rule, "startAt"), _bound(rule, "endAt")
    is_in_force = (start is None or start <= when) and (end is None or when < end)
    return _ramped_share(rule, when, bisect_right) if is_in_force else 0


def _ramped_share(rule: Rule, when: datetime, steps_before: Callable[[list[datetime], datetime], int]) -> float:
    ramp = rule.get("ramp", ())
    shares: list[float] = [rule.get("percentage", 0 if ramp else _ALL), *(step["percentage"] for step in ramp)]
    return shares[steps_before([parse_timestamp(step["at"]) for step in ramp], when)]


def describe_time(when: datetime) -> str:
    """Return `26 Nov 2026, 09:00 UTC`, with seconds only if there are any."""
    return f"{_date(when)}, {_time(when)}"


def describe_start(when: datetime) -> str:
    """Return when something starts to hold. Midnight is the date alone."""
    return _date(when) if _is_midnight(when) else describe_time(when)


def describe_coming(when: datetime, now: datetime) -> str:
    """Return when something will start to hold. The next six days have their names: `Friday at 09:00 UTC`."""
    if not 0 < (when.date() - now.date()).days <= _DAYS_BY_NAME:
        return describe_start(when)
    day = f"{when:%A}"
    return day if _is_midnight(when) else f"{day} at {_time(when)}"


def describe_end(when: datetime, now: datetime) -> str:
    """Return when something ended: the date, with the time if it was today."""
    return describe_time(when) if when.date() == now.date() else _date(when)


def describe_distance(text: str) -> str | None:
    """Return a relative time in words, such as `30 days ago` for `-30d`, or None for any other text."""
    parts = relative_parts(text)
    if parts is None:
        return None
    number, unit = parts
    if not number:
        return "now"
    words = f"{abs(number):,} {unit.removesuffix('s') if abs(number) == 1 else unit}"
    return f"{words} ago" if number < 0 else f"{words} from now"


def _date(when: datetime) -> str:
    return f"{when.day} {when:%b} {when.year}"


def _time(when: datetime) -> str:
    text = f"{when:%H:%M}"
    if when.second or when.microsecond:
        text += f":{when:%S}"
    if when.microsecond:
        text += f".{when.microsecond:06}".rstrip("0")
    return f"{text} UTC"


def _is_midnight(when: datetime) -> bool:
    return when.time() == time()
