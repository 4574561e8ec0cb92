"""Reading the lines of a file more than once, even if it is compressed or comes from stdin.

`events.imports.records` parses the lines.
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
"""In bytes. No record needs a tenth of it."""
_IN_MEMORY = 16 * 1024 * 1024
_GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file. CSV and NDJSON never begin with them."""

FORMS = ("csv", "ndjson")


class FileRefused(Exception):
    """A file cannot be imported; the message gives the reason to the operator."""


@dataclass(frozen=True, slots=True)
class File:
    """An open file. `form` is one of `FORMS`. `size` is in bytes as stored, and is the unit of
    progress.
    """

    form: str
    size: int
    raw: IO[bytes]
    is_compressed: bool

    def lines(self, on_progress: Callable[[int], object]) -> Iterator[bytes]:
        """Yield all lines from the start. One that is too long is cut to one byte more than
        LONGEST_LINE.
        """
        self.raw.seek(0)
        reported = 0
        try:
            with gzip.GzipFile(fileobj=self.raw, mode="rb") if self.is_compressed else _left_open(self.raw) as file:
                while line := file.readline(LONGEST_LINE + 1):
                    yield line
                    while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                        line = file.readline(LONGEST_LINE + 1)
                    if (position := self.raw.tell()) > reported:
                        on_progress(position - reported)
                        reported = position
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileRefused(f"It is not valid gzip ({error}).") from error


@contextmanager
def opened(name: str, form: str | None = None) -> Iterator[File]:
    """Open a file; `-` is stdin, which is copied to a temporary file. Raises FileRefused.

    If no form is given, the name of the file decides; for stdin it is NDJSON.
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
