"""The clock of a server, which a test may set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class Clock:
    """A clock that is right until a test sets it wrong by some seconds."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.fail("A small C library sets the clock of a server, and there is no compiler `cc` for it.")
        library = folder / "clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
        self._offset = folder / "offset"
        self.settings = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._offset)}

    def set(self, seconds: int) -> None:
        """Be wrong by so many seconds from now on."""
        new = self._offset.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._offset)
