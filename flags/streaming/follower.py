"""Following the configuration in a thread of its own: that reads the database, for which no event loop may wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from django.db import connection
from django.utils import timezone

from config import signal_file, snapshot
from config.keys.api_keys import live_keys
from config.keys.environments import known
from config.models import Change
from flags.engine.types import Configuration
from flags.snapshot import compiled
from flags.streaming.messages import News

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.02
"""At one integer in memory."""
_SECONDS_BETWEEN_TRIES = 1.0
_LOOKS_BETWEEN_REOPENINGS = 50

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Outlook:
    """How every environment stands, and which API keys are live in it, by their ids."""

    news: Mapping[str, News]
    environment_of_key: Mapping[str, str]

    def admits(self, key_id: str, environment: str) -> bool:
        """Whether the bearer of a key may hear of an environment; "" is who needed none to be told of the stream."""
        return environment in self.news and (not key_id or self.environment_of_key.get(key_id) == environment)


class Follower:
    """Looks again and again, and tells whenever something that listeners are told of is no longer as it was."""

    def __init__(self, tell: Callable[[Outlook], None]) -> None:
        self._tell = tell
        self._told: Outlook | None = None
        self._seen: tuple[object, ...] = ()
        self._due = _FIRST
        self._moments: dict[int, datetime] = {}

    def start(self) -> None:
        threading.Thread(target=self._follow, name="stream-follower", daemon=True).start()

    def _follow(self) -> None:
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
            except Exception as error:  # whatever it is: without this thread the streams would fall silent for good
                failures += 1
                connection.close()  # after a quiet night it may be gone, and the database not: then nothing is said
                if failures == 2:
                    logger.warning("Event streams cannot follow changes, and will go on trying: %r", error)
                if failures > 1:
                    time.sleep(_SECONDS_BETWEEN_TRIES)

    def look(self, now: datetime) -> None:
        """Catch up with what was committed and with what the clock has brought."""
        snapshot.refresh()
        seen = (compiled.state, live_keys.state, known.state)
        if now < self._due and all(new is old for new, old in zip(seen, self._seen, strict=True)):
            return
        configurations = {key: compiled.state.configurations[key] for key in known.state.by_key}
        keys = [key for key in live_keys.state.values() if key.is_live(now)]
        moments = self._moments_of({each.revision for each in configurations.values()})
        outlook = Outlook(
            {key: _news(each, moments, now) for key, each in configurations.items()},
            {str(key.pk): key.environment.key for key in keys},
        )
        if outlook != self._told:
            self._tell(outlook)
            self._told = outlook
        changes = (configuration.schedule.next_change(now) for configuration in configurations.values())
        expiries = (key.expires_at for key in keys)
        self._seen, self._due = seen, min((each for each in chain(changes, expiries) if each), default=_LAST)

    def _moments_of(self, revisions: set[int]) -> Mapping[int, datetime]:
        """When these changes were made; only those are looked up that were not known before."""
        found = {revision: at for revision, at in self._moments.items() if revision in revisions}
        if missing := revisions - found.keys():
            found |= Change.objects.filter(revision__in=missing).values_list("revision", "at")
        self._moments = found
        return found


def _news(configuration: Configuration, moments: Mapping[int, datetime], now: datetime) -> News:
    at = moments.get(configuration.revision, datetime.fromtimestamp(0, UTC))  # nothing has been written as yet
    return News(configuration.revision, at, configuration.schedule.last_change(now))
