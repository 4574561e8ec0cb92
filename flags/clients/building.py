"""Build the packages of the clients into a folder, from which the service serves them.

The same sources give the same files. File names contain a version that changes with the content. Earlier packages stay,
because lock files of applications may have their addresses.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from flags.clients import npm
from flags.clients.wheel import PROJECT, wheel

FOLDER = PROJECT / "var" / "clients"
_CURRENT = "current.json"


def build(folder: Path = FOLDER) -> list[str]:
    """Build all packages, and return the names of their files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = dict(_packages())
    for name, content in packages.items():
        _write(folder / name, content)
    _write(folder / _CURRENT, json.dumps([*packages]).encode())
    return [*packages]


def current_names(folder: Path = FOLDER) -> list[str]:
    """Return the names of the newest packages, if any were built."""
    with suppress(OSError, ValueError):
        names: list[str] = json.loads((folder / _CURRENT).read_bytes())
        return names
    return []


def _packages() -> Iterator[tuple[str, bytes]]:
    yield wheel()  # its version contains a hash
    for name, content in (*npm.tarballs(), npm.browser_module()):
        stem, suffix = os.path.splitext(name)
        yield f"{stem}+h{sha256(content).hexdigest()[:8]}{suffix}", content


def _write(path: Path, content: bytes) -> None:
    """Replace the file at once, because a server may be reading it."""
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
