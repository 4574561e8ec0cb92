"""Recent users in words: how many a change concerns, and how many a rule decides."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.dateformat import format as date_format

from flags.recent_users.preview import Preview
from flags.recent_users.sample import Sample

_DAY = timedelta(days=1)


def describe_changed(
    preview: Preview,
    where: str,
    now: datetime,
    within: timedelta,
    *,
    number_of_flags: int = 1,
    would: str = "will see something else",
) -> str:
    """Return how many of the users who were seen within a time a change concerns. `would` says what it does to them."""
    about = "" if _is_exact(preview) else "about "
    changed = preview.changed if _is_exact(preview) else round(preview.changed * preview.all_users / preview.users)
    users = f"user{'' if preview.all_users == 1 else 's'}"
    seen = f"{about}{preview.all_users:,} {users} seen {where} {_period(preview.since, now, within)}"
    which = "" if number_of_flags == 1 else " in at least one of these flags"
    if not changed:
        return f"Of the {seen}, none {would}{which}."
    return f"Of the {seen}, {about}{changed:,} ({percent(preview.share)}) {would}{which}."


def describe_decided(preview: Preview, decided: int, now: datetime, within: timedelta) -> str:
    """Return the share of recent users whom a rule decides."""
    return _describe_share(decided, preview.users, _period(preview.since, now, within), is_exact=_is_exact(preview))


def describe_audience(on: int, sample: Sample, now: datetime, within: timedelta) -> str:
    """Return the share of recent users for whom a flag is on."""
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


def _is_exact(preview: Preview) -> bool:
    return preview.all_users == preview.users


def _period(since: datetime, now: datetime, within: timedelta) -> str:
    """Say since when the users were seen. The sample may have begun later."""
    if since <= now - within:
        return "in the last day" if within == _DAY else f"in the last {within.days} days"
    return f"since {date_format(timezone.localtime(since), 'j M Y, H:i')}"
