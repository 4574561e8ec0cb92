"""Promotion: copy the states of flags from one environment to another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from config.change_log.writing import Actor, Basis, write_prepared
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from flags.changes import bulk
from flags.changes.bulk import FlagEntry, Written
from flags.changes.flag_rows import flags_as_json
from flags.validation.shapes import check_distinct


def promote(
    *,
    source: Environment,
    target: Environment,
    keys: Sequence[str] | None = None,
    actor: Actor,
    now: datetime,
    reason: str = "",
    is_dry_run: bool = False,
    seen: str | None = None,
) -> Sequence[Written]:
    """Give flags in `target` the states that they have in `source`, and return the flags that differ.

    `keys` are the flags; None means all that are not archived. A dry run rolls back. With the `fingerprint` of a dry
    run as
    `seen`, exactly its differences are written, or nothing. Raises ValidationFailed, or DomainError
    `precondition_failed`.
    """
    if source.pk == target.pk:
        message = f"Must differ from {target.key}, the environment that is written."
        raise ValidationFailed([Detail("from", DetailCode.INVALID_VALUE, message)])

    def prepare(basis: Basis) -> bulk.PreparedWrite:
        write = bulk.prepare(basis, flags=_entries(keys, source.key, target.key))
        if seen is not None and seen != fingerprint(write.written):
            message = "The differences have changed since you looked at them; look at them again."
            raise DomainError(ErrorCode.PRECONDITION_FAILED, message)
        return write

    return write_prepared(prepare, actor=actor, now=now, reason=reason, is_dry_run=is_dry_run).written


def fingerprint(written: Sequence[Written]) -> str:
    """Return a hash of the differences."""
    text = json.dumps([[change.before, change.after] for change in written], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _require_all(keys: Sequence[str], chosen: Sequence[Document]) -> None:
    existing = {as_json["key"] for as_json in chosen}
    details = [
        Detail(f"flags[{index}]", DetailCode.UNKNOWN_REFERENCE, f"No flag has the key {key[:100]!r}.")
        for index, key in enumerate(keys)
        if key not in existing
    ]
    details += check_distinct(keys, (f"flags[{index}]" for index in range(len(keys))))
    if details:
        raise ValidationFailed(details)


def _entries(keys: Sequence[str] | None, source: str, target: str) -> Sequence[FlagEntry]:
    chosen = [as_json for _, as_json in flags_as_json(keys).values()]
    if keys is None:
        chosen = [as_json for as_json in chosen if "archivedAt" not in as_json]
    _require_all(keys or (), chosen)
    return [bulk.entry_of(as_json, source, target) for as_json in chosen]
