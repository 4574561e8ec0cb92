"""Note users in the memory of this process as they are evaluated. Nothing here waits for a database: see `storage`.

Nearly all users were noted before, or are not at a low enough position. For them, a set is searched
and a hash is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from config.access.environments import known
from config.models import Environment
from config.snapshot import revision
from flags.engine.types import Attributes, Configuration, Context
from flags.snapshot import configuration
from flags.usage.attributes import Reader
from flags.usage.sample import MAX_USERS, POSITIONS, position
from flags.usage.sources import names_in_use

RENEWED_AFTER = timedelta(hours=1)
"""A user is noted once in this time."""

_NOBODY = ""
"""The id of all anonymous users, who are never noted."""
_NOTHING = Configuration({}, {})


class Note(NamedTuple):
    """A user who was seen at a time, and the attributes that the sample keeps."""

    position: int
    user_id: str
    at: datetime
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class Notes:
    """The users of one environment that were noted since `since`, and of these the ones who wait to be stored.

    Users are noted below `limit`. At `erased_at`, a user of the environment was erased.
    """

    environment: Environment
    reader: Reader
    since: datetime
    limit: int = POSITIONS
    erased_at: datetime | None = None
    noted: set[str] = field(default_factory=lambda: {_NOBODY})
    waiting: dict[str, Note] = field(default_factory=dict)

    def add(self, note: Note) -> None:
        self.noted.add(note.user_id)
        self.waiting[note.user_id] = note
        if len(self.waiting) >= 2 * MAX_USERS:  # the database is away: only the lowest can be needed
            lowest = sorted(self.waiting.values())[: MAX_USERS + 1]
            self.limit = lowest[-1].position
            self.waiting = {note.user_id: note for note in lowest[:-1]}
            self.note_anew()

    def note_anew(self) -> None:
        """Note all users once more, except those who wait."""
        self.noted = {_NOBODY, *self.waiting}


class Notebook:
    """The notes of this process, by the key of the environment. No users are noted before `prepare`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[str, Notes] = {}
        self._revision: int | None = None

    def see(self, environment: Environment, user_id: str, attributes: Attributes, at: datetime) -> None:
        """Note that a user was seen, if the user may belong to the sample."""
        notes = self._notes.get(environment.key)
        if notes is not None and user_id not in notes.noted and position(user_id) < notes.limit:
            self._note(notes, Context(user_id, attributes, _NOTHING, at))

    def _note(self, notes: Notes, context: Context) -> None:
        user_id = context.user_id
        note = Note(position(user_id), user_id, context.now, notes.reader.values(context))
        with self._lock:
            notes.add(note)

    def prepare(self, now: datetime) -> None:
        """Note users of all environments from now on, with the attributes that are in use now.

        All users are noted once more every hour, and when further attributes are in use.
        """
        newest = revision()  # before the configurations, which may then be newer
        if newest != self._revision:
            for environment in known.state.by_key.values():
                self._prepare(environment, now)
            self._revision = newest
        for notes in self._notes.values():
            if now - notes.since >= RENEWED_AFTER:
                self._note_anew(notes, now)

    def _prepare(self, environment: Environment, now: datetime) -> None:
        names = names_in_use(environment.key, configuration(environment.key))
        notes = self._notes.get(environment.key)
        if notes is None:
            self._notes[environment.key] = Notes(environment, Reader.of(names), now)
        elif names != notes.reader.names:
            has_more = not names <= notes.reader.names
            notes.reader = Reader.of(names)
            if has_more:
                self._note_anew(notes, notes.since)

    def _note_anew(self, notes: Notes, since: datetime) -> None:
        with self._lock:
            notes.since = since
            notes.note_anew()

    def take(self, most: int) -> Iterator[tuple[Notes, list[Note]]]:
        """Yield the notes at the lowest positions of each environment, and remove them: the caller stores them."""
        for notes in list(self._notes.values()):
            with self._lock:
                taken = sorted(notes.waiting.values())[:most]
                for note in taken:
                    del notes.waiting[note.user_id]
            if taken:
                yield notes, taken

    def give_back(self, notes: Notes, taken: Iterable[Note]) -> None:
        """Let notes wait again that could not be stored, except those of users who were noted since."""
        with self._lock:
            for note in taken:
                if note.user_id not in notes.waiting:
                    notes.add(note)

    def adopt(self, notes: Notes, limit: int, erased_at: datetime | None) -> None:
        """Note users below the limit of the sample from now on.

        If a user was erased since, the notes of that time are lost, so all users are noted once more.
        """
        with self._lock:
            notes.limit = limit
            if erased_at != notes.erased_at:
                notes.erased_at = erased_at
                notes.note_anew()


notebook = Notebook()
