"""Stale flags and their reasons, for the API, the command and the admin."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import BooleanField, Case, Count, Max, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce

from config.models import Environment
from flags.models import Flag, FlagQuerySet, LastUse, hour_of

STALE_AFTER = timedelta(days=30)


class StaleReason(StrEnum):
    """Why a flag is stale, in the order in which reasons are listed."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str) -> StaleReason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning, member.remedy = meaning, remedy
        return member

    EXPIRED = "expired", "The flag has expired.", "Remove it from the code, then archive it."
    NOT_EVALUATED = (
        "not_evaluated",
        "The flag is at least 30 days old, and was not evaluated here in the last 30 days.",
        "If no code uses it any more, archive it.",
    )
    ONE_OUTCOME = (
        "one_outcome",
        "The flag was not changed here for 30 days, and had the same outcome for everyone in that time.",
        "Replace it in the code, then archive it.",
    )


def with_stale_reasons(flags: FlagQuerySet, environment: Environment, now: datetime) -> FlagQuerySet:
    """Annotate flags with their reasons. They must be read `in_environment`. Archived flags are never stale."""
    since = hour_of(now - STALE_AFTER)
    uses = LastUse.objects.filter(environment=environment, flag_key=OuterRef("key"), hour__gte=since)
    outcomes = uses.order_by().values("flag_key").annotate(number=Count("outcome")).values("number")
    conditions = {
        StaleReason.EXPIRED: Q(expires_at__lte=now),
        StaleReason.NOT_EVALUATED: Q(created_at__lte=now - STALE_AFTER, recent_outcomes=0),
        StaleReason.ONE_OUTCOME: Q(updated_at__lte=now - STALE_AFTER, recent_outcomes=1),
    }
    return flags.alias(recent_outcomes=Coalesce(Subquery(outcomes), 0)).annotate(
        **{
            _column(reason): Case(
                When(Q(archived_at=None) & condition, then=Value(True)),
                default=Value(False),
                output_field=BooleanField(),
            )
            for reason, condition in conditions.items()
        }
    )


def stale(flags: FlagQuerySet) -> FlagQuerySet:
    """Return the flags that have a reason. They must be read `with_stale_reasons`."""
    return flags.filter(_is_stale())


def not_stale(flags: FlagQuerySet) -> FlagQuerySet:
    """Return the flags that have no reason. They must be read `with_stale_reasons`."""
    return flags.filter(~_is_stale())


def stale_reasons(flag: Flag) -> list[StaleReason]:
    """Return the reasons of a flag that was read `with_stale_reasons`."""
    return [reason for reason in StaleReason if getattr(flag, _column(reason), False)]


def with_last_hour(flags: FlagQuerySet, environment: Environment) -> Any:
    """Annotate flags with `last_hour`, the hour of the last evaluation."""
    uses = LastUse.objects.filter(environment=environment, flag_key=OuterRef("key"))
    last = uses.order_by().values("flag_key").annotate(last=Max("hour")).values("last")
    return flags.annotate(last_hour=Subquery(last))


def _column(reason: StaleReason) -> str:
    return f"is_{reason.value}"


def _is_stale() -> Q:
    condition = Q()
    for reason in StaleReason:
        condition |= Q(**{_column(reason): True})
    return condition
