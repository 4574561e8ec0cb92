"""Store recent users, and keep the sample of each environment within its bounds.

The sample has all users at positions below a limit who were seen in the last seven days. Too many users lower the
limit, and few raise it. Users above the old limit count only after seven days, when the sample has all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DataError, Error, IntegrityError, connection, transaction
from django.utils import timezone

from config.database.insertion import insert, replacing
from config.database.locks import lock_environment
from config.documents import Document, is_same
from config.models import Environment
from config.monitoring.log_lines import OutageLog
from config.snapshot import is_loaded
from flags.models import RecentUser, RecentUserSampling
from flags.usage.attributes import within_limits
from flags.usage.previews import complete_limit
from flags.usage.recent_users import RENEWED_AFTER, EnvironmentUsers, RecentUsers, SeenUser
from flags.usage.sample import MAX_USERS, PERIOD, POSITIONS

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 1_000
"""Users of an environment that are stored in one transaction, so that nobody waits long for its lock."""
FEW = MAX_USERS // 2
"""The limit is raised if the sample has fewer users than this."""
_WANTED = MAX_USERS * 4 // 5
"""Users that a raised limit should lead to."""
_BETWEEN_CLEANINGS = timedelta(days=1)

_UNIQUE = ("environment_id", "user_id")
_COLUMNS = (*_UNIQUE, "position", "attributes", "seen_at")
Row = tuple[int, str, int, Document, datetime]


class SampleStorage:
    def __init__(self, recent_users: RecentUsers) -> None:
        self._recent_users = recent_users
        self._cleaned_at: datetime | None = None
        self._outages = OutageLog(
            logger,
            failing="Cannot store the sample of recent users",
            working="The sample of recent users is stored again",
        )

    def prepare(self) -> None:
        """Let users be recorded, unless the setting RECENT_USERS is off. This needs no database."""
        if settings.RECENT_USERS and is_loaded():
            self._recent_users.prepare(timezone.now())

    def store(self) -> None:
        """Store users, or keep them for the next time if the database is unavailable."""
        now = timezone.now()
        try:
            self.prepare()
            self._clean(now)
            if settings.RECENT_USERS:
                for users, popped in self._recent_users.pop_lowest(MAX_AT_ONCE):
                    self._store(users, popped, now)
        except (Error, OSError) as error:
            self._outages.fail(error)
            connection.close()
        else:
            self._outages.succeed()

    def _store(self, users: EnvironmentUsers, popped: Sequence[SeenUser], now: datetime) -> None:
        try:
            sampling = add(users.environment, popped, users.reader.names, now)
        except (IntegrityError, DataError, Environment.DoesNotExist):  # such as after the database was replaced
            logger.exception("The database refused recent users; they are dropped")
        except (Error, OSError):
            self._recent_users.put_back(users, popped)
            raise
        else:
            self._recent_users.follow_sampling(users, sampling.limit, sampling.erased_at)

    def _clean(self, now: datetime) -> None:
        """Keep the samples within their bounds, also if nobody runs `maintain`."""
        if self._cleaned_at is None or now - self._cleaned_at >= _BETWEEN_CLEANINGS:
            clean(now)
            self._cleaned_at = now


def add(
    environment: Environment, seen: Sequence[SeenUser], names: Collection[str], now: datetime
) -> RecentUserSampling:
    """Add users to the sample of an environment, and return how it is drawn from now on.

    New attributes are merged into the stored ones, of which only those in `names` are kept.
    """
    with transaction.atomic():
        lock_environment(environment)
        since = min(user.seen_at for user in seen)
        sampling, _ = RecentUserSampling.objects.get_or_create(
            environment=environment, defaults={"limit": POSITIONS, "since": since}
        )
        rows = list(_rows(sampling, seen, names))
        insert(RecentUser, _COLUMNS, rows, replacing(_UNIQUE, _COLUMNS))
        if rows:
            _bound(sampling, now)
    return sampling


def _rows(sampling: RecentUserSampling, seen: Sequence[SeenUser], names: Collection[str]) -> Iterator[Row]:
    """Yield the users who are new or have changed, or whose row is at least an hour old."""
    environment, limit, erased_at = sampling.environment_id, sampling.limit, sampling.erased_at
    wanted = [user for user in seen if user.position < limit and (erased_at is None or user.seen_at > erased_at)]
    rows = RecentUser.objects.filter(environment=environment, user_id__in=[user.user_id for user in wanted])
    stored = {row.user_id: row for row in rows}
    for user in wanted:
        row = stored.get(user.user_id)
        if row is None:
            yield environment, user.user_id, user.position, dict(user.attributes), user.seen_at
            continue
        kept = {name: value for name, value in row.attributes.items() if name in names}
        attributes = within_limits({**kept, **user.attributes})
        if user.seen_at - row.seen_at >= RENEWED_AFTER or not is_same(attributes, row.attributes):
            yield environment, user.user_id, user.position, attributes, max(user.seen_at, row.seen_at)


def _bound(sampling: RecentUserSampling, now: datetime) -> None:
    """Lower the limit if the sample has too many users, and delete users above it."""
    users = RecentUser.objects.filter(environment=sampling.environment_id)
    if users.count() <= MAX_USERS:
        return
    users.filter(seen_at__lt=now - PERIOD).delete()
    first_beyond = users.order_by("position").values_list("position", flat=True)[MAX_USERS : MAX_USERS + 1]
    for limit in first_beyond:
        users.filter(position__gte=limit).delete()
        sampling.limit = limit
        sampling.save(update_fields=["limit"])


def erase_user(environment: Environment, user_id: str, now: datetime) -> None:
    """Erase a user. Workers then discard what they recorded before.

    The caller's transaction must hold the lock of the environment.
    """
    RecentUser.objects.filter(environment=environment, user_id=user_id).delete()
    if settings.RECENT_USERS:
        initial = {"limit": POSITIONS, "since": now, "erased_at": now}
        RecentUserSampling.objects.update_or_create(
            environment=environment, defaults={"erased_at": now}, create_defaults=initial
        )


def clean(now: datetime) -> str:
    """Delete users who were not seen for seven days, and raise limits. Delete all if RECENT_USERS is off.

    Return a line for the log.
    """
    if not settings.RECENT_USERS:
        return f"deleted {_delete_all():,}, because RECENT_USERS is off"
    environments = Environment.objects.filter(pk__in=RecentUserSampling.objects.values("environment"))
    deleted = sum(_clean(environment, now) for environment in environments.order_by("pk"))
    return f"deleted {deleted:,} not seen for {PERIOD.days} days"


def _delete_all() -> int:
    deleted, _ = RecentUser.objects.all().delete()
    RecentUserSampling.objects.all().delete()
    return deleted


def _clean(environment: Environment, now: datetime) -> int:
    with transaction.atomic():
        lock_environment(environment)
        users = RecentUser.objects.filter(environment=environment)
        deleted, _ = users.filter(seen_at__lt=now - PERIOD).delete()
        sampling, count = RecentUserSampling.objects.get(environment=environment), users.count()
        if sampling.limit < POSITIONS and count < FEW and complete_limit(sampling, now) == sampling.limit:
            sampling.limit_before, sampling.raised_at = sampling.limit, now
            sampling.limit = min(POSITIONS, sampling.limit * _WANTED // max(count, 1))
            sampling.save()
    return deleted
