"""What a flag went by at a moment of the past, read from the change log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from django.db.models import Max

from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode
from config.models import Change, ChangeQuerySet
from config.slugs import is_key
from flags.changes import flag_changes, segment_changes
from flags.changes.properties import in_environment
from flags.engine.parsing import compile_flag, compile_segment, references
from flags.engine.types import Configuration


def configuration_at(flag_key: str, environment_key: str, moment: datetime) -> tuple[Configuration, int]:
    """What a flag was in an environment, with all flags and segments that it went by, and the revision of then.

    Raises DomainError `flag_not_found` where there was no such flag.
    """
    then = Change.objects.as_of(moment)
    asked = [flag_key] if is_key(flag_key) else []
    flags = _closure(then, flag_changes.KIND, asked, lambda document: in_environment(document, environment_key))
    if flag_key not in flags:
        message = "The flag did not exist at that time."
        detail = Detail("at", DetailCode.UNKNOWN_REFERENCE, message)
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag had the key {flag_key[:100]!r} then.", [detail])
    named = [key for document in flags.values() for key in _named(segment_changes.KIND, document)]
    found = _closure(then, segment_changes.KIND, named, lambda document: document)
    configuration = Configuration(
        {key: compile_flag(document) for key, document in flags.items()},
        {key: compile_segment(document) for key, document in found.items()},
    )
    return configuration, then.latest_revision()


def _closure(
    then: ChangeQuerySet, kind: str, keys: Iterable[str], read: Callable[[Document], Document]
) -> Mapping[str, Document]:
    """The documents of these keys, of those that they name, and so on. One query for each step away from the first."""
    found: dict[str, Document] = {}
    seen: set[str] = set()
    wanted = set(keys)
    while wanted:
        seen |= wanted
        documents = {key: read(document) for key, document in _documents(then, kind, wanted)}
        found |= documents
        wanted = {key for document in documents.values() for key in _named(kind, document)} - seen
    return found


def _documents(then: ChangeQuerySet, kind: str, keys: Iterable[str]) -> Iterable[tuple[str, Document]]:
    newest = then.filter(kind=kind, key__in=keys).order_by().values("key").annotate(newest=Max("revision"))
    changes_of_then = Change.objects.filter(revision__in=newest.values("newest"), after__isnull=False)
    return changes_of_then.values_list("key", "after")


def _named(kind: str, document: Document) -> list[str]:
    return [each.key for each in references(document) if each.kind == kind]
