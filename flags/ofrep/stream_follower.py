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
from config.access.environments import known
from config.models import Change
from config.snapshot import signal_file
from flags.engine.types import Configuration
from flags.ofrep.stream_messages import EnvironmentStatus
from flags.snapshot import compiled

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.02  # a look compares one integer in memory
_SECONDS_BETWEEN_TRIES = 1.0
_LOOKS_BETWEEN_REOPENINGS = 50

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Status:
    """The status of every environment by its key, and the environment of every live API key by the key's id."""

    environments: Mapping[str, EnvironmentStatus]
    environment_of_key: Mapping[str, str]

    def admits(self, key_id: str, environment: str) -> bool:
        """Return whether the bearer of a key may listen to an environment.

        An empty id stands for a caller whose token was issued without a key.
        """
        return environment in self.environments and (not key_id or self.environment_of_key.get(key_id) == environment)


class Follower:
    """Checks the configuration continually, and publishes each status that differs from the last."""

    def __init__(self, publish: Callable[[Status], None]) -> None:
        self._publish = publish
        self._published: Status | None = None
        self._seen: tuple[object, ...] = ()
        self._due = _FIRST
        self._moments: dict[int, datetime] = {}

    def start(self) -> None:
        threading.Thread(target=self._follow, name="stream-follower", daemon=True).start()

    def _follow(self) -> None:
        # Otherwise the event loop would stand still while a large change is applied.
        snapshot.start_yielding_cpu()
        failures = 0
        while True:
            try:
                for _ in range(_LOOKS_BETWEEN_REOPENINGS):
                    self.look(timezone.now())
                    if failures > 1:
                        logger.warning("Event streams follow changes again")
                    failures = 0
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
                signal_file.reopen_if_replaced()
                snapshot.look()  # a worker may have applied a change of another host together with one of this host
            except Exception as error:  # any error at all: without this thread no stream gets another message
                failures += 1
                # An idle connection may be closed while the database works. The first failure is
                # therefore not logged.
                connection.close()
                if failures == 2:
                    logger.warning("Event streams cannot follow changes, and keep trying: %r", error)
                if failures > 1:
                    time.sleep(_SECONDS_BETWEEN_TRIES)

    def look(self, now: datetime) -> None:
        """Apply what was committed, and publish the status if it differs, also because scheduled moments passed.

        Raises OperationalError while the database does not answer.
        """
        snapshot.refresh()
        if snapshot.staleness() is not None:
            raise OperationalError("The newest configuration cannot be read.")
        seen = (compiled.state, live_keys.state, known.state)
        if now < self._due and all(new is old for new, old in zip(seen, self._seen, strict=True)):
            return
        configurations = {key: compiled.state.configurations[key] for key in known.state.by_key}
        keys = [key for key in live_keys.state.values() if key.is_live(now)]
        moments = self._moments_of({configuration.revision for configuration in configurations.values()})
        status = Status(
            {key: _status_of(configuration, moments, now) for key, configuration in configurations.items()},
            {key.id: key.environment.key for key in keys},
        )
        if status != self._published:
            self._publish(status)
            self._published = status
        changes = (configuration.schedule.next_change(now) for configuration in configurations.values())
        expiries = (key.expires_at for key in keys)
        self._seen, self._due = seen, min((moment for moment in chain(changes, expiries) if moment), default=_LAST)

    def _moments_of(self, revisions: set[int]) -> Mapping[int, datetime]:
        """Return when these changes were made. Only those that are not in memory are read."""
        moments = {revision: at for revision, at in self._moments.items() if revision in revisions}
        if missing := revisions - moments.keys():
            moments |= Change.objects.filter(revision__in=missing).values_list("revision", "at")
        self._moments = moments
        return moments


def _status_of(configuration: Configuration, moments: Mapping[int, datetime], now: datetime) -> EnvironmentStatus:
    at = moments.get(configuration.revision, datetime.fromtimestamp(0, UTC))  # there may be no change yet
    return EnvironmentStatus(configuration.revision, at, configuration.schedule.last_change(now))
