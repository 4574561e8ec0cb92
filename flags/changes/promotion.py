"""Promotion: flags become in one environment what they are in another. What all environments share stays as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from config.change_log.writing import Actor, writing
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from flags.changes.bulk import FlagEntry, Written, write_flags
from flags.changes.documents import common_values, documents
from flags.changes.properties import OFF, values_of
from flags.changes.references import CachedLookup
from flags.engine.shapes import check_distinct


def promote(
    *,
    source: Environment,
    target: Environment,
    keys: Sequence[str] | None = None,
    actor: Actor,
    at: datetime,
    reason: str = "",
    is_dry_run: bool = False,
    seen: str | None = None,
) -> Sequence[Written]:
    """Give flags in `target` the state that they have in `source`: those named, or all that are not archived.

    Returns those that differ. A dry run does all of it and then takes it back; what `fingerprint` makes of its answer
    may be sent as `seen`, and then nothing else is written than that. Raises ValidationFailed, or DomainError
    `precondition_failed`.
    """
    if source.pk == target.pk:
        message = f"Must be another environment than {target.key}, the environment that is written."
        raise ValidationFailed([Detail("from", DetailCode.INVALID_VALUE, message)])
    with writing(actor=actor, at=at, reason=reason) as log:
        found = [document for _, document in documents(keys).values()]
        if keys is None:
            found = [document for document in found if "archivedAt" not in document]
        _require_all(keys or (), found)
        entries = [_entry(document, source.key, target.key) for document in found]
        written = write_flags(log, entries, CachedLookup())
        if seen is not None and seen != fingerprint(written):
            message = "The differences have changed since you looked at them; look at them again."
            raise DomainError(ErrorCode.PRECONDITION_FAILED, message)
        if is_dry_run:
            transaction.set_rollback(True)
    return written


def fingerprint(written: Sequence[Written]) -> str:
    """The same for the same differences, and for no others."""
    text = json.dumps([[each.before, each.after] for each in written], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _require_all(keys: Sequence[str], found: Sequence[Document]) -> None:
    known = {document["key"] for document in found}
    details = [
        Detail(f"flags[{at}]", DetailCode.UNKNOWN_REFERENCE, f"No flag has the key {key[:100]!r}.")
        for at, key in enumerate(keys)
        if key not in known
    ]
    details += check_distinct(keys, (f"flags[{at}]" for at in range(len(keys))))
    if details:
        raise ValidationFailed(details)


def _entry(document: Document, source: str, target: str) -> FlagEntry:
    return FlagEntry(
        field=document["key"],
        key=document["key"],
        common=common_values(values_of(document, source)),
        states={target: document["states"].get(source, OFF)},
        is_archived="archivedAt" in document,
    )
