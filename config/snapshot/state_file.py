"""The last known state in a file of `RUNTIME_DIR`, for a process that starts while the database is away.

The file has lines of JSON: a header, the entries of each table, and a keyed checksum. It has only hashes of API keys,
and only the user of the service can read it.
"""

from __future__ import annotations

import hmac
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.utils.crypto import salted_hmac

from config.database.file_locks import file_lock
from config.snapshot.tables import Table, current, without_garbage_collection, yield_cpu

logger = logging.getLogger(__name__)

FORMAT = 1
"""Raise this number whenever a table writes its entries in another way."""
MAX_AGE = timedelta(days=7)
"""An older file is refused, because keys that were revoked since would be accepted."""

_SALT = "config.snapshot.state_file"


class Refused(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class State:
    """The states of all tables at one revision. `newest` is the time of the newest change."""

    revision: int
    newest: datetime | None
    tables: Sequence[tuple[Table[Any], Any]]

    @classmethod
    def of_this_process(cls) -> State:
        """Return the state as it is. Call it in the thread that changes it."""
        revision, newest = current.newest
        return cls(revision, newest, [(table, table.state) for table in current.tables])


# --- writing ----------------------------------------------------------------------------------------------------------


def keep(state: State, *, anew: bool = False) -> bool:
    """Write the newest state. If the file has it already, only set its time to now. Return whether this process did so.

    With `anew`, write it in any case: the file may be damaged, or written by code of another version. If several
    processes of a host try it at the same time, one of them succeeds.
    """
    path = _path()
    with file_lock(path.with_suffix(".lock")) as try_to_lock:
        is_ours = try_to_lock()
        if is_ours and not anew and _is_in_file(state, path):
            os.utime(path)
        elif is_ours:
            _write(state, path)
        return is_ours


def _is_in_file(state: State, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.readline() == _line(_header(state.revision, state.newest, state.tables))
    except FileNotFoundError:
        return False


def _write(state: State, path: Path) -> None:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    checksum = _checksum(settings.SECRET_KEY)
    with open(descriptor, "wb") as file:
        for line in _lines(state):
            checksum.update(line)
            file.write(line)
            yield_cpu()
        file.write(checksum.hexdigest().encode())
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _lines(state: State) -> Iterator[bytes]:
    yield _line(_header(state.revision, state.newest, state.tables))
    for table, own in state.tables:
        for entry in table.dump(own):
            yield _line([table.name, entry])


def _line(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _header(revision: int, newest: datetime | None, tables: Sequence[tuple[Table[Any], Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tables": sorted(table.name for table, _ in tables),
        "secretKey": _digest("secret key", settings.SECRET_KEY),
        "database": _digest(_database(), settings.SECRET_KEY),
        "revision": revision,
        "newest": newest,
    }


def _digest(text: str, secret: str) -> str:
    return salted_hmac(_SALT, text, secret, algorithm="sha256").hexdigest()


def _checksum(secret: str) -> hmac.HMAC:
    return salted_hmac(_SALT, "", secret, algorithm="sha256")


def _database() -> str:
    """Return the identity of the database, which is the same for every user and password."""
    own = settings.DATABASES["default"]
    return "\n".join(str(own.get(name, "")) for name in ("ENGINE", "HOST", "PORT", "NAME"))


def _path() -> Path:
    folder: Path = settings.RUNTIME_DIR
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "state"


# --- reading ----------------------------------------------------------------------------------------------------------


_said: list[str] = []
"""The last reason in the log why the file could not be used. It is tried again every second."""


def restore() -> bool:
    """Use the state in the file unless this process has one, and return whether it is used.

    It is provisional: once the database answers, everything is loaded from there.
    """
    path = _path()
    try:
        known_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        state = _read(path, known_at)
    except FileNotFoundError:
        return False
    except (Refused, OSError) as error:
        if str(error) not in _said:
            _said[:] = [str(error)]
            logger.warning("Cannot start from the last known state: %s", error)
        return False
    age = max(timedelta(), datetime.now(UTC) - known_at)
    if not current.adopt((state.revision, state.newest), state.tables, time.monotonic() - age.total_seconds()):
        return False
    logger.warning("Serving the last known state, revision %s of %s", state.revision, f"{known_at:%Y-%m-%d %H:%M:%S}Z")
    return True


def _read(path: Path, known_at: datetime) -> State:
    content = path.read_bytes()
    first, *lines = content.splitlines(keepends=True) or [b""]
    header, secret = _read_header(first, path)
    if datetime.now(UTC) - known_at > MAX_AGE:
        message = f"{path} was last known to be current on {known_at:%Y-%m-%d}, over {MAX_AGE.days} days ago."
        raise Refused(message)
    checksum = lines.pop() if lines else b""
    expected = _checksum(secret)
    expected.update(content[: len(content) - len(checksum)])
    if not hmac.compare_digest(expected.hexdigest().encode(), checksum):
        raise Refused(f"{path} is damaged: its checksum is wrong.")
    entries = defaultdict(list)
    for name, entry in map(orjson.loads, lines):
        entries[name].append(entry)
    try:
        with without_garbage_collection():
            states = [(table, table.restore(entries[table.name])) for table in current.tables]
    except Exception as error:  # of any kind: other code has written the entries, and forgot to raise FORMAT
        raise Refused(f"{path} has entries that this version of Halyard cannot read ({error!r}).") from error
    return State(header["revision"], datetime.fromisoformat(header["newest"]) if header["newest"] else None, states)


def _read_header(line: bytes, path: Path) -> tuple[dict[str, Any], str]:
    """Return the header, and the SECRET_KEY that it was written with.

    Raises Refused if the file is not one of this version, service and database.
    """
    header: Any = None
    with suppress(orjson.JSONDecodeError):
        header = orjson.loads(line)
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise Refused(f"{path} is damaged: it has no header.")
    if header["format"] > FORMAT:
        raise Refused(f"a newer version of Halyard has written {path}.")
    if header["format"] < FORMAT or header.get("tables") != sorted(table.name for table in current.tables):
        raise Refused(f"another version of Halyard has written {path}.")
    known = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    secret = next((one for one in known if header.get("secretKey") == _digest("secret key", one)), None)
    if secret is None:
        raise Refused(f"{path} was written with another SECRET_KEY.")
    if header.get("database") != _digest(_database(), secret):
        raise Refused(f"{path} is of another database than the one that DATABASE_URL names.")
    return header, secret
