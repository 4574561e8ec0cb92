"""Flags on the first page of the admin: how many are on, what is scheduled, what is stale, and how they are used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncDay
from django.urls import reverse

from config.admin.columns import unbroken
from config.admin.settings_pages import Scheduled
from config.change_log.named_users import fill
from config.models import Environment
from flags.explanations.upcoming import upcoming_steps
from flags.models import Flag, Usage
from flags.snapshot import configuration
from flags.usage.staleness import stale, stale_reasons, with_stale_reasons

DAYS_OF_USAGE = 14
_DAY = timedelta(days=1)
_MAX_STALE = 5


def count_flags(environment: Environment) -> dict[str, int]:
    """Return the number of flags, and of flags that are on."""
    flags = Flag.objects.current().in_environment(environment)
    return flags.aggregate(total=Count("pk"), on=Count("pk", filter=Q(enabled=True)))


# what is scheduled


def scheduled_changes(environment: Environment, now: datetime, until: datetime) -> Iterator[Scheduled]:
    """Yield scheduled changes of rules, and flags that expire."""
    flags = configuration(environment.key).flags
    steps = {
        key: found for key, flag in flags.items() if (found := list(upcoming_steps(flag.source["rules"], now, until)))
    }
    expiring = Flag.objects.current().filter(expires_at__gt=now, expires_at__lte=until)
    expiries = {flag.key: flag.expires_at for flag in expiring.only("key", "expires_at") if flag.expires_at}
    ids = Flag.objects.current().filter(key__in=[*steps, *expiries]).values_list("key", "pk")
    for key, pk in ids:
        address = reverse("admin:flags_flag_change", args=[pk])
        for at, words in steps.get(key, ()):
            whole = words if flags[key].enabled else fill("{}; the flag is off", words)
            yield Scheduled(at, key, address, unbroken(whole))
        if key in expiries:
            yield Scheduled(expiries[key], key, address, "expires: remove it from the code, then archive it")


# what is stale


@dataclass(frozen=True, slots=True)
class StaleFlags:
    """The number of stale flags, and the first of them with their reasons in words."""

    number: int
    first: Sequence[tuple[Flag, str]]

    @property
    def more(self) -> int:
        return self.number - len(self.first)


def stale_flags(environment: Environment, now: datetime) -> StaleFlags:
    flags = Flag.objects.current().in_environment(environment)
    found = stale(with_stale_reasons(flags, environment, now)).order_by("key")
    first = [(flag, " ".join(reason.meaning for reason in stale_reasons(flag))) for flag in found[:_MAX_STALE]]
    return StaleFlags(found.count() if len(first) == _MAX_STALE else len(first), first)


# usage


class Bar(NamedTuple):
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Daily evaluations of a flag, oldest first, as bars in a box of 56 by 16."""

    total: int
    bars: Sequence[Bar]

    @property
    def words(self) -> str:
        return f"{self.total:,} evaluations in {DAYS_OF_USAGE} days"


def sparklines(environment: Environment, keys: Collection[str], now: datetime) -> Mapping[str, Sparkline]:
    """Return the usage of the flags that were evaluated lately."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - (DAYS_OF_USAGE - 1) * _DAY
    stored = Usage.objects.filter(environment=environment, flag_key__in=keys, hour__gte=first, hour__lte=now)
    days = stored.annotate(day=TruncDay("hour", tzinfo=UTC)).values_list("flag_key", "day")
    counts: dict[str, list[int]] = {}
    for key, day, count in days.order_by().annotate(count=Sum("count")):
        counts.setdefault(key, [0] * DAYS_OF_USAGE)[(day - first).days] = count
    return {key: Sparkline(sum(by_day), list(_bars(by_day))) for key, by_day in counts.items()}


def _bars(counts: Sequence[int]) -> Iterator[Bar]:
    for index, count in enumerate(counts):
        if count:
            height = max(1.0, round(16 * count / max(counts), 1))
            yield Bar(4 * index, 16 - height, height)
