"""The thread that follows the configuration. It reads the database, which would block the event loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from django.db import OperationalError, connection
from django.utils import timezone

from config import snapshot
from config.access.api_keys import live_keys
from config.access.environments import known_environments
from config.models import Change
from config.snapshot import signal_file
from flags.engine.types import Configuration
from flags.ofrep.stream_messages import EnvironmentStatus
from flags.snapshot import compiled

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_POLLS = 0.02  # a poll compares one integer in memory
_SECONDS_BETWEEN_TRIES = 1.0
_POLLS_BETWEEN_REOPENINGS = 50

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Status:
    """The status of every environment by key, and the environment key of every live API key by its id."""

    environments: Mapping[str, EnvironmentStatus]
    environment_of_key: Mapping[str, str]

    def admits(self, key_id: str, environment: str) -> bool:
        """Return whether an API key may listen to an environment. Tokens issued without a key have an empty id."""
        return environment in self.environments and (not key_id or self.environment_of_key.get(key_id) == environment)


class Follower:
    """Watches the configuration, and publishes each new status."""

    def __init__(self, publish: Callable[[Status], None]) -> None:
        self._publish = publish
        self._published: Status | None = None
        self._seen: tuple[object, ...] = ()
        self._due = _FIRST
        self._commit_times: dict[int, datetime] = {}

    def start(self) -> None:
        threading.Thread(target=self._follow, name="stream-follower", daemon=True).start()

    def _follow(self) -> None:
        # Otherwise, a large change would block the event loop.
        snapshot.start_yielding_cpu()
        failures = 0
        while True:
            try:
                for _ in range(_POLLS_BETWEEN_REOPENINGS):
                    self.poll(timezone.now())
                    if failures > 1:
                        logger.warning("Event streams follow changes again")
                    failures = 0
                    time.sleep(_SECONDS_BETWEEN_POLLS)
                signal_file.reopen_if_replaced()
                snapshot.look()  # a worker may have applied a change of another host together with one of this host
            except Exception as error:  # any error: without this thread no stream gets a message
                failures += 1
                # An idle connection may have been closed, so the first failure is not logged.
                connection.close()
                if failures == 2:
                    logger.warning("Event streams cannot follow changes, and keep trying: %r", error)
                if failures > 1:
                    time.sleep(_SECONDS_BETWEEN_TRIES)

    def poll(self, now: datetime) -> None:
        """Apply committed changes, and publish the status if it differs, which scheduled changes cause too.

        Raises OperationalError while the database does not answer.
        """
        snapshot.refresh()
        if snapshot.staleness() is not None:
            raise OperationalError("The newest configuration cannot be read.")
        seen = (compiled.state, live_keys.state, known_environments.state)
        if now < self._due and all(new is old for new, old in zip(seen, self._seen, strict=True)):
            return
        configurations = {key: compiled.state.configurations[key] for key in known_environments.state.by_key}
        keys = [key for key in live_keys.state.values() if key.is_live(now)]
        commit_times = self._commit_times_of({configuration.revision for configuration in configurations.values()})
        status = Status(
            {key: _status_of(configuration, commit_times, now) for key, configuration in configurations.items()},
            {key.id: key.environment.key for key in keys},
        )
        if status != self._published:
            self._publish(status)
            self._published = status
        changes = (configuration.schedule.next_change(now) for configuration in configurations.values())
        expiries = (key.expires_at for key in keys)
        self._seen, self._due = seen, min((due for due in chain(changes, expiries) if due), default=_LAST)

    def _commit_times_of(self, revisions: set[int]) -> Mapping[int, datetime]:
        """Return when these changes were made. Only unknown ones are read from the database."""
        commit_times = {
            revision: changed_at for revision, changed_at in self._commit_times.items() if revision in revisions
        }
        if missing := revisions - commit_times.keys():
            commit_times |= Change.objects.filter(revision__in=missing).values_list("revision", "at")
        self._commit_times = commit_times
        return commit_times


def _status_of(configuration: Configuration, commit_times: Mapping[int, datetime], now: datetime) -> EnvironmentStatus:
    changed_at = commit_times.get(configuration.revision, datetime.fromtimestamp(0, UTC))  # there may be no change yet
    return EnvironmentStatus(configuration.revision, changed_at, configuration.schedule.last_change(now))
