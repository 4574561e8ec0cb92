"""Recent users in words: how many a change concerns, and how many a rule decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.dateformat import format as date_format

from config.models import Environment
from flags.usage.comparison import Preview
from flags.usage.previews import NoSample
from flags.usage.sample import Sample
from flags.usage.series import count_evaluations

DAY = timedelta(days=1)
_MAX_NAMED = 20
_MAX_IN_A_SENTENCE = 5


def describe_last_day(
    keys: Sequence[str], environment: Environment, where: str, now: datetime, preview: Preview | NoSample
) -> list[str]:
    """Return how often flags were evaluated in the last day, and how many users a change concerns.

    `preview` compares the change for users seen in the last day. Every question about flags says this.
    """
    counts = count_evaluations(keys, environment, start=now - DAY)
    if preview is NoSample.EMPTY:
        users = f"No user is known to have been seen {where} in the last day."
    elif isinstance(preview, NoSample):
        users = preview.meaning
    else:
        users = describe_changed(preview, where, now, DAY, flags=keys)
    if len(keys) == 1:
        return [f"In the last day, {keys[0]} was {_evaluated(counts.get(keys[0], 0))} {where}.", users]
    named = [f"{key} was {_evaluated(counts.get(key, 0))} in the last day." for key in keys[:_MAX_NAMED]]
    more = len(keys) - len(named)
    return [users, *named, *([f"and {more:,} more flag{'' if more == 1 else 's'}"] if more else [])]


def _evaluated(count: int) -> str:
    return {0: "not evaluated", 1: "evaluated once"}.get(count, f"evaluated {count:,} times")


def describe_changed(
    preview: Preview,
    where: str,
    now: datetime,
    within: timedelta,
    *,
    flags: Sequence[str] = (),
    would: str = "will see something else",
) -> str:
    """Return how many users seen within a time a change concerns. `would` says what it does to them.

    `flags` are named if there are several.
    """
    about, changed = _about(preview), _estimate(preview, preview.changed)
    users = f"user{'' if preview.all_users == 1 else 's'}"
    seen = f"{about}{preview.all_users:,} {users} seen {where} {_period(preview.since, now, within)}"
    which = f" in {_any_of(flags)}" if len(flags) > 1 else ""
    if not changed:
        return f"Of the {seen}, none {would}{which}."
    return f"Of the {seen}, {about}{changed:,} ({percent(preview.share)}) {would}{which}."


def describe_lost(preview: Preview, flags: Sequence[str]) -> str:
    """Return for how many users a flag goes off, or "" for none."""
    if not preview.lost:
        return ""
    lost = _estimate(preview, preview.lost)
    what = _any_of(flags) if len(flags) <= _MAX_IN_A_SENTENCE else "At least one of them"
    return f"{what} goes off for {_about(preview)}{lost:,} user{'' if lost == 1 else 's'}."


def _any_of(flags: Sequence[str]) -> str:
    """Return `a, b or c`. Flags that would make the sentence too long are not named."""
    if len(flags) > _MAX_IN_A_SENTENCE:
        return "at least one of these flags"
    *first, last = flags
    return f"{', '.join(first)} or {last}" if first else last


def describe_decided(preview: Preview, decided: int, now: datetime, within: timedelta) -> str:
    """Return the share of recent users whom a rule decides."""
    return _describe_share(decided, preview.users, _period(preview.since, now, within), is_exact=_is_exact(preview))


def describe_audience(on: int, sample: Sample, now: datetime, within: timedelta) -> str:
    users = len(sample.users)
    return _describe_share(on, users, _period(sample.since, now, within), is_exact=sample.all_users == users)


def _describe_share(number: int, users: int, period: str, *, is_exact: bool) -> str:
    if not number:
        return f"No user seen {period}"
    share = percent(number / users)
    about = share if is_exact or share[0] in "<>" else f"About {share}"
    return f"{about} of the users seen {period}"


def percent(share: float) -> str:
    hundredths = 100 * share
    if not share:
        return "0 %"
    if hundredths < 1:
        return "< 1 %"
    return "> 99 %" if 99 < hundredths < 100 else f"{hundredths:.0f} %"


def _about(preview: Preview) -> str:
    return "" if _is_exact(preview) else "about "


def _estimate(preview: Preview, number: int) -> int:
    """Return the number of all users that a number in the sample stands for."""
    return number if _is_exact(preview) else round(number * preview.all_users / preview.users)


def _is_exact(preview: Preview) -> bool:
    return preview.all_users == preview.users


def _period(since: datetime, now: datetime, within: timedelta) -> str:
    """Return since when the users were seen. The sample may be younger than `within`."""
    if since <= now - within:
        return "in the last day" if within == DAY else f"in the last {within.days} days"
    return f"since {date_format(timezone.localtime(since), 'j M Y, H:i T')}"
