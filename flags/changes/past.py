"""Read from the change log what a flag, and all that it depended on, was at a time in the past."""

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
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.types import Configuration
from flags.validation.parsing import references


def configuration_at(flag_key: str, environment_key: str, moment: datetime) -> tuple[Configuration, int]:
    """Return a past configuration and its revision. It has the flag and all flags and segments that it depended on.

    Raises DomainError `flag_not_found` if there was no such flag.
    """
    then = Change.objects.as_of(moment)
    keys = [flag_key] if is_key(flag_key) else []
    flags = _closure(then, flag_changes.KIND, keys, lambda document: in_environment(document, environment_key))
    if flag_key not in flags:
        message = "The flag did not exist at that time."
        detail = Detail("at", DetailCode.UNKNOWN_REFERENCE, message)
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag had the key {flag_key[:100]!r} at that time.", [detail])
    named = [key for document in flags.values() for key in _named(segment_changes.KIND, document)]
    segments = _closure(then, segment_changes.KIND, named, lambda document: document)
    configuration = Configuration(
        {key: compile_flag(document) for key, document in flags.items()},
        {key: compile_segment(document) for key, document in segments.items()},
    )
    return configuration, then.latest_revision()


def _closure(
    then: ChangeQuerySet, kind: str, keys: Iterable[str], read: Callable[[Document], Document]
) -> Mapping[str, Document]:
    """Return the documents of these keys, of those that they name, and so on. Each step takes one query."""
    closure: dict[str, Document] = {}
    seen: set[str] = set()
    wanted = set(keys)
    while wanted:
        seen |= wanted
        documents = {key: read(document) for key, document in _documents(then, kind, wanted)}
        closure |= documents
        wanted = {key for document in documents.values() for key in _named(kind, document)} - seen
    return closure


def _documents(then: ChangeQuerySet, kind: str, keys: Iterable[str]) -> Iterable[tuple[str, Document]]:
    if kind == segment_changes.KIND:
        return segment_changes.documents_in(then, list(keys)).items()
    newest = then.filter(kind=kind, key__in=keys).order_by().values("key").annotate(newest=Max("revision"))
    changes_of_then = Change.objects.filter(revision__in=newest.values("newest"), after__isnull=False)
    return changes_of_then.values_list("key", "after")


def _named(kind: str, document: Document) -> list[str]:
    return [reference.key for reference in references(document) if reference.kind == kind]
