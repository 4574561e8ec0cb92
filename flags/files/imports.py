"""The import of flags and segments: all entries of a file are written in one short transaction, or none of them.

`flags.files.reading` reads the file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.change_log.writing import Actor, Basis, write_prepared
from config.errors import Detail, ValidationFailed
from flags.changes import bulk
from flags.changes.bulk import FlagEntry, SegmentEntry, Written


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

    def prepare(basis: Basis) -> bulk.Write:
        return _prepare(basis, content)

    return write_prepared(prepare, actor=actor, at=at, reason=reason, is_dry_run=is_dry_run).written


def _prepare(basis: Basis, content: Content) -> bulk.Write:
    details = list(content.defects)
    try:
        write = bulk.prepare(
            basis,
            segments=content.segments,
            flags=content.flags,
            granted_segments=content.refused_segments,
            granted_flags=content.refused_flags,
        )
    except ValidationFailed as error:
        details += error.details
    if details:
        raise ValidationFailed(details)
    return write
