"""A file that is read from its beginning as often as need be, though it is compressed or comes by
stdin.

What is in it is for `records`.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

STANDARD = "-"
LONGEST_LINE = 1024 * 1024
"""Bytes, of which no record needs a tenth."""
_IN_MEMORY = 16 * 1024 * 1024
_GZIP = b"\x1f\x8b"
"""What it begins with, and neither CSV nor NDJSON ever does."""

FORMS = ("csv", "ndjson")


class FileRefused(Exception):
    """Why a file cannot be imported, in words for whoever wants to."""


@dataclass(frozen=True, slots=True)
class File:
    """`form` is one of `FORMS`, `size` in bytes as they lie there, which is what progress is told
    in.
    """

    form: str
    size: int
    raw: IO[bytes]
    is_compressed: bool

    def lines(self, on_progress: Callable[[int], object]) -> Iterator[bytes]:
        """All lines from the first one on. What is too long for one is cut, and so one byte longer
        than it may be.
        """
        self.raw.seek(0)
        told = 0
        try:
            with gzip.GzipFile(fileobj=self.raw, mode="rb") if self.is_compressed else _left_open(self.raw) as file:
                while line := file.readline(LONGEST_LINE + 1):
                    yield line
                    while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                        line = file.readline(LONGEST_LINE + 1)
                    if (at := self.raw.tell()) > told:
                        on_progress(at - told)
                        told = at
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileRefused(f"It is not valid gzip ({error}).") from error


@contextmanager
def opened(name: str, form: str | None = None) -> Iterator[File]:
    """Open a file; `-` is stdin, which is kept in a temporary one. Raises FileRefused.

    The form is what the name says where none is given; of stdin it is NDJSON.
    """
    try:
        if name == STANDARD:
            with SpooledTemporaryFile(_IN_MEMORY) as spooled:
                shutil.copyfileobj(sys.stdin.buffer, spooled)
                yield File(form or "ndjson", spooled.tell(), spooled, _begins_as_gzip(spooled))
            return
        path = Path(name)
        with path.open("rb") as file:
            is_compressed = path.suffix == ".gz" or _begins_as_gzip(file)
            yield File(form or _form_of(path), path.stat().st_size, file, is_compressed)
    except OSError as error:
        raise FileRefused(f"It cannot be read: {error.strerror or error}.") from error


def _form_of(path: Path) -> str:
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.removeprefix(".")
    if ending not in FORMS:
        raise FileRefused("Its name does not say whether it is CSV or NDJSON; add --format.")
    return ending


def _begins_as_gzip(file: IO[bytes]) -> bool:
    file.seek(0)
    return file.read(len(_GZIP)) == _GZIP


@contextmanager
def _left_open(file: IO[bytes]) -> Iterator[IO[bytes]]:
    yield file
