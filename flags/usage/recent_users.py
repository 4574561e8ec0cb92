"""Record users in the memory of this process as they are evaluated. `sample_storage` stores them.

Nothing here waits for a database. For nearly every request, one look into a set and one hash show that there is
nothing to record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from config.access.environments import known_environments
from config.models import Environment
from config.snapshot import revision
from flags.engine.types import Attributes, Configuration, Context
from flags.snapshot import configuration
from flags.usage.attributes import Reader
from flags.usage.sample import MAX_USERS, POSITIONS, position
from flags.usage.sources import attributes_in_use

RENEWED_AFTER = timedelta(hours=1)
"""Each user is recorded once in this time."""

_ANONYMOUS = ""
_NO_CONFIGURATION = Configuration({}, {})


class SeenUser(NamedTuple):
    """A user who was seen, with the attributes that the sample keeps."""

    position: int
    user_id: str
    seen_at: datetime
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class EnvironmentUsers:
    """The users of one environment that this process has seen.

    `recorded`: ids of users who need not be recorded again, all of them seen after `since`.
    `waiting`: users to be stored, by id.
    `limit`: users at this position and above are left out.
    `erased_at`: when a user of the environment was last erased.
    """

    environment: Environment
    reader: Reader
    since: datetime
    limit: int = POSITIONS
    erased_at: datetime | None = None
    recorded: set[str] = field(default_factory=lambda: {_ANONYMOUS})
    waiting: dict[str, SeenUser] = field(default_factory=dict)

    def add(self, user: SeenUser) -> None:
        self.recorded.add(user.user_id)
        self.waiting[user.user_id] = user
        if len(self.waiting) >= 2 * MAX_USERS:  # the database is away: only the lowest can be needed
            lowest = sorted(self.waiting.values())[: MAX_USERS + 1]
            self.limit = lowest[-1].position
            self.waiting = {user.user_id: user for user in lowest[:-1]}
            self.record_again()

    def record_again(self) -> None:
        """Record all users once more, except those who wait to be stored."""
        self.recorded = {_ANONYMOUS, *self.waiting}


class RecentUsers:
    """The users that this process has seen, by the key of the environment. It records none before `prepare`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_environment: dict[str, EnvironmentUsers] = {}
        self._revision: int | None = None

    def record(self, environment: Environment, user_id: str, attributes: Attributes, now: datetime) -> None:
        """Record that a user was seen, if the user may belong to the sample."""
        users = self._by_environment.get(environment.key)
        if users is not None and user_id not in users.recorded and position(user_id) < users.limit:
            self._record(users, Context(user_id, attributes, _NO_CONFIGURATION, now))

    def _record(self, users: EnvironmentUsers, context: Context) -> None:
        user_id = context.user_id
        user = SeenUser(position(user_id), user_id, context.now, users.reader.values(context))
        with self._lock:
            users.add(user)

    def prepare(self, now: datetime) -> None:
        """Record users of all environments from now on, with the attributes that are in use now.

        Every hour, and when more attributes are in use, all users are recorded once more.
        """
        newest = revision()  # before the configurations, which may then be newer
        if newest != self._revision:
            for environment in known_environments.state.by_key.values():
                self._prepare(environment, now)
            self._revision = newest
        for users in self._by_environment.values():
            if now - users.since >= RENEWED_AFTER:
                self._record_again(users, now)

    def _prepare(self, environment: Environment, now: datetime) -> None:
        names = attributes_in_use(environment.key, configuration(environment.key))
        users = self._by_environment.get(environment.key)
        if users is None:
            self._by_environment[environment.key] = EnvironmentUsers(environment, Reader.of(names), now)
        elif names != users.reader.names:
            has_more = not names <= users.reader.names
            users.reader = Reader.of(names)
            if has_more:
                self._record_again(users, users.since)

    def _record_again(self, users: EnvironmentUsers, since: datetime) -> None:
        with self._lock:
            users.since = since
            users.record_again()

    def pop_lowest(self, number: int) -> Iterator[tuple[EnvironmentUsers, list[SeenUser]]]:
        """Yield the waiting users at the lowest positions of each environment, at most `number` of them.

        They are removed, because the caller stores them.
        """
        for users in list(self._by_environment.values()):
            with self._lock:
                popped = sorted(users.waiting.values())[:number]
                for user in popped:
                    del users.waiting[user.user_id]
            if popped:
                yield users, popped

    def put_back(self, users: EnvironmentUsers, popped: Iterable[SeenUser]) -> None:
        """Let users wait again who could not be stored, unless they were recorded since."""
        with self._lock:
            for user in popped:
                if user.user_id not in users.waiting:
                    users.add(user)

    def follow_sampling(self, users: EnvironmentUsers, limit: int, erased_at: datetime | None) -> None:
        """Record users below the limit of the stored sample from now on.

        Erasing a user discards what workers had not stored yet, so all users are then recorded once more.
        """
        with self._lock:
            users.limit = limit
            if erased_at != users.erased_at:
                users.erased_at = erased_at
                users.record_again()


of_process = RecentUsers()
