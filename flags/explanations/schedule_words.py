"""Times and schedules in words: `26 Nov 2026, 09:00 UTC`, and `30 % now, 50 % from Friday`.

A schedule is described by its periods, which follow the bounds and thresholds that the engine applies. Times are never
rounded, because rules act at their microsecond. Each names its time zone, and pages add the reader's own.
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
"""For how many days ahead the name of the day says which one it is."""
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

    now: datetime
    is_record: bool = False
    is_sentence: bool = False


def ended_at(rule: Rule, now: datetime) -> datetime | None:
    """Return when the rule ended by its schedule, or None if it has not."""
    end = _bound(rule, "endAt")
    return end if end is not None and end <= now else None


def matches_nobody(rule: Rule, now: datetime) -> bool:
    """Return whether the rule matches nobody at the moment, nor later by its schedule and its ramp.

    It is false for the rule of an experiment: a flag without other rules is on for users outside the experiment.
    """
    return rule.get("type") != "experiment" and not any(period.share for period in periods(rule, now))


def describe_ended(end: datetime, now: datetime) -> str:
    """Return `ended 2 Mar 2025`."""
    return f"ended {describe_end(end, now)}"


def periods(rule: Rule, now: datetime) -> list[Period]:
    """Return the share at the moment, and each later one from the moment when it applies."""
    moments = [now, *sorted({moment for moment in _moments(rule) if moment > now})]
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
    if (end := ended_at(rule, wording.now)) is not None:
        share = _ramped_share(rule, end, bisect_left)  # the last one before it ended
        return fill("{}, {}", _share_of(share, users, users_of_share), describe_ended(end, wording.now))
    coming = periods(rule, wording.now)
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


def describe_moment(moment: datetime) -> str:
    """Return the date and the time: `26 Nov 2026, 09:00 UTC`, with seconds only if there are any."""
    return f"{_date(moment)}, {_time(moment)}"


def describe_start(moment: datetime) -> str:
    """Return the moment from which something holds; a date alone is its first instant."""
    return _date(moment) if _is_midnight(moment) else describe_moment(moment)


def describe_coming(moment: datetime, now: datetime) -> str:
    """Return the moment from which something holds; one of the next six days by its name: `Friday at 09:00 UTC`."""
    if not 0 < (moment.date() - now.date()).days <= _DAYS_BY_NAME:
        return describe_start(moment)
    day = f"{moment:%A}"
    return day if _is_midnight(moment) else f"{day} at {_time(moment)}"


def describe_end(moment: datetime, now: datetime) -> str:
    """Return when something ended: its date, with the time if that was on the day of `now`."""
    return describe_moment(moment) if moment.date() == now.date() else _date(moment)


def describe_distance(text: str) -> str | None:
    """Return a relative time in words: `30 days ago` for `-30d`; None for any other text."""
    parts = relative_parts(text)
    if parts is None:
        return None
    number, unit = parts
    if not number:
        return "now"
    words = f"{abs(number):,} {unit.removesuffix('s') if abs(number) == 1 else unit}"
    return f"{words} ago" if number < 0 else f"{words} from now"


def _date(moment: datetime) -> str:
    return f"{moment.day} {moment:%b} {moment.year}"


def _time(moment: datetime) -> str:
    text = f"{moment:%H:%M}"
    if moment.second or moment.microsecond:
        text += f":{moment:%S}"
    if moment.microsecond:
        text += f".{moment.microsecond:06}".rstrip("0")
    return f"{text} UTC"


def _is_midnight(moment: datetime) -> bool:
    return moment.time() == time()
