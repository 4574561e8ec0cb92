"""The import of flags and segments: all entries of a file are written in one transaction, or none of them.

`flags.files.reading` reads the file.
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
    """The entries that can be written, and what is wrong with the others.

    A reference to a refused flag or segment is not reported as an error of its own.
    """

    segments: Sequence[SegmentEntry]
    flags: Sequence[FlagEntry]
    defects: Sequence[Detail] = ()
    refused_segments: Collection[str] = ()
    refused_flags: Collection[str] = ()


def import_content(
    content: Content, *, actor: Actor, at: datetime, reason: str = "", is_dry_run: bool = False
) -> Sequence[Written]:
    """Write the entries that differ from the database and return them, segments before the flags that refer to them.

    A dry run writes them and then rolls back. Raises ValidationFailed with all errors of the whole file.
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


def _known(content: Content) -> references.Lookup:
    return references.CachedLookup(granted_flags=content.refused_flags, granted_segments=content.refused_segments)
