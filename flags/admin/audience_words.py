"""Recent users in words: how many a change concerns, and how many a rule decides."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.dateformat import format as date_format

from flags.recent_users.preview import Preview

_DAY = timedelta(days=1)


def describe_changed(
    preview: Preview, where: str, now: datetime, within: timedelta, *, number_of_flags: int = 1, would: str = "will"
) -> str:
    """Return how many of the users who were seen within a time see something else after a change."""
    about = "" if _is_exact(preview) else "about "
    changed = preview.changed if _is_exact(preview) else round(preview.changed * preview.all_users / preview.users)
    users = f"user{'' if preview.all_users == 1 else 's'}"
    seen = f"{about}{preview.all_users:,} {users} seen {where} {_period(preview, now, within)}"
    which = "" if number_of_flags == 1 else " in at least one of these flags"
    if not changed:
        return f"Of the {seen}, none {would} see something else{which}."
    return f"Of the {seen}, {about}{changed:,} ({percent(preview.share)}) {would} see something else{which}."


def describe_decided(preview: Preview, decided: int, now: datetime, within: timedelta) -> str:
    """Return the share of recent users whom a rule decides."""
    period = _period(preview, now, within)
    if not decided:
        return f"No user seen {period}"
    share = percent(decided / preview.users)
    about = share if _is_exact(preview) or share[0] in "<>" else f"About {share}"
    return f"{about} of the users seen {period}"


def percent(share: float) -> str:
    hundredths = 100 * share
    if hundredths < 1:
        return "< 1 %"
    return "> 99 %" if 99 < hundredths < 100 else f"{hundredths:.0f} %"


def _is_exact(preview: Preview) -> bool:
    return preview.all_users == preview.users


def _period(preview: Preview, now: datetime, within: timedelta) -> str:
    """Say since when the users were seen. The sample may have begun later."""
    if preview.since <= now - within:
        return "in the last day" if within == _DAY else f"in the last {within.days} days"
    return f"since {date_format(timezone.localtime(preview.since), 'j M Y, H:i')}"
