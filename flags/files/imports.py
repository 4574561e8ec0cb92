"""Making flags and segments what a file says: all of it or nothing, in one transaction.

Not here: how a file is read (`flags.files`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from config.change_log.writing import Actor, Writing, writing
from config.errors import Detail, ValidationFailed
from flags.changes import references
from flags.changes.bulk import FlagEntry, SegmentEntry, Written, write_flags, write_segments


@dataclass(frozen=True, slots=True)
class Content:
    """Acceptable entries, and what was wrong with others, by whose keys nobody is blamed for naming them."""

    segments: Sequence[SegmentEntry]
    flags: Sequence[FlagEntry]
    defects: Sequence[Detail] = ()
    refused_segments: Collection[str] = ()
    refused_flags: Collection[str] = ()


def import_content(
    content: Content, *, actor: Actor, at: datetime, reason: str = "", is_dry_run: bool = False
) -> Sequence[Written]:
    """Write what differs, segments before the flags that may name them, and return it.

    A dry run does all of it and then takes it back. Raises ValidationFailed with everything that stands against it.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        details = list(content.defects)
        written: list[Written] = []
        for write in (_write_segments, _write_flags):
            try:
                written += write(log, content)
            except ValidationFailed as error:
                details += error.details
        if details:
            raise ValidationFailed(details)
        if is_dry_run:
            transaction.set_rollback(True)
    return written


def _write_segments(log: Writing, content: Content) -> Sequence[Written]:
    return write_segments(log, content.segments, _known(content))


def _write_flags(log: Writing, content: Content) -> Sequence[Written]:
    return write_flags(log, content.flags, _known(content))


def _known(content: Content) -> references.Known:
    return references.KnownAtOnce(granted_flags=content.refused_flags, granted_segments=content.refused_segments)
