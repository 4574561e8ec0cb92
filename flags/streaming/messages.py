"""The text of an event stream: what has happened to an environment, as OpenFeature's clients are told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

OPENING = b"retry: 2000\n: Halyard tells here when to ask again.\n\n"
"""The milliseconds after which a browser connects again. The comment makes proxies pass the beginning on."""
HEARTBEAT = b": still here\n\n"
_SKEW = timedelta(minutes=1)
"""By how much the clocks of two hosts may differ."""


@dataclass(frozen=True, slots=True)
class News:
    """How an environment stands: its revision, when that came to be, and the newest moment named by a rule since."""

    revision: int
    changed_at: datetime
    moment: datetime | None = None

    def is_newer_than(self, at: datetime, revision: int | None) -> bool:
        """Whether who was answered at that time or later, and then heard of a revision, may have missed this."""
        if self.moment is not None and self.moment > at:
            return True
        return self.changed_at > at - _SKEW if revision is None else self.revision > revision

    @property
    def message(self) -> bytes:
        """The event. It names what clients ask with: the revision, and the moment where that came later."""
        is_scheduled = self.moment is not None and self.moment > self.changed_at
        last_modified = int((self.moment if self.moment and is_scheduled else self.changed_at).timestamp())
        etag = f"{self.revision}.{last_modified}" if is_scheduled else str(self.revision)
        data = f'{{"type":"refetchEvaluation","etag":"{etag}","lastModified":{last_modified}}}'
        return f"id: {self.revision}\nevent: message\ndata: {data}\n\n".encode()
