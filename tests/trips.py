"""The project's own files that a piece of work passes through, as a measure of how much of the code it concerns."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_ROOT = Path(__file__).resolve().parent.parent
_TOUR = _ROOT / "templates/guide/code-tour.md"
_PARTS = tuple(f"{_ROOT / part}/" for part in ("config", "events", "experiments", "flags"))


@dataclass
class Trip:
    """The files that were entered, in the order in which that first happened, and how often another file was entered
    than that of the call before.
    """

    files: list[str] = field(default_factory=list)
    changes: int = 0


@contextmanager
def following() -> Iterator[Trip]:
    """Yield the trip of this block in this thread. Do the work once before, so that modules and caches are there."""
    trip, seen, last = Trip(), set[str](), ""

    def enter(frame: FrameType, event: str, _: object) -> None:
        nonlocal last
        if event != "call" or not (name := frame.f_code.co_filename).startswith(_PARTS) or name == last:
            return
        last = name
        trip.changes += 1
        if name not in seen:
            seen.add(name)
            trip.files.append(str(Path(name).relative_to(_ROOT)))

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        yield trip
    finally:
        sys.setprofile(before)


def limits_of(section: str) -> list[int]:
    """Return the numbers of files that a section of the tour of the code allows, in the order of its text."""
    _, _, rest = _TOUR.read_text().partition(f"\n## {section}\n")
    return [int(number) for number in re.findall(r"(\d+) files", rest.partition("\n## ")[0])]
