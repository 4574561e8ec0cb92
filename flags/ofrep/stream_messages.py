"""The messages of an event stream, in the format that OpenFeature's clients read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

# A browser reconnects after this many milliseconds. The comment makes proxies pass on the beginning
# of the stream.
OPENING = b"retry: 2000\n: Halyard sends an event here when flags change.\n\n"
HEARTBEAT = b": still here\n\n"

_SKEW = timedelta(minutes=1)
"""How far the clocks of two hosts may differ."""


@dataclass(frozen=True, slots=True)
class EnvironmentStatus:
    """The revision of an environment, the time of its commit, and the newest scheduled change that has happened."""

    revision: int
    changed_at: datetime
    scheduled_at: datetime | None = None

    def is_newer_than(self, answered_at: datetime, revision: int | None) -> bool:
        """Return whether a client may have missed this status.

        `answered_at`: the earliest time at which the client was answered.
        `revision`: the last revision that it received, if any.
        """
        if self.scheduled_at is not None and self.scheduled_at > answered_at:
            return True
        return self.changed_at > answered_at - _SKEW if revision is None else self.revision > revision

    @property
    def message(self) -> bytes:
        """The event. Its `etag` is the revision, with the time of a scheduled change that came later."""
        is_scheduled = self.scheduled_at is not None and self.scheduled_at > self.changed_at
        last_modified = int((self.scheduled_at if self.scheduled_at and is_scheduled else self.changed_at).timestamp())
        etag = f"{self.revision}.{last_modified}" if is_scheduled else str(self.revision)
        data = f'{{"type":"refetchEvaluation","etag":"{etag}","lastModified":{last_modified}}}'
        return f"id: {self.revision}\nevent: message\ndata: {data}\n\n".encode()
