"""Read a past configuration from the change log: a flag and everything that it depended on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from django.db.models import Max
from django.utils import timezone

from config.change_log.retention import complete_since
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, ChangeQuerySet, kinds_of
from config.slugs import is_key
from config.timestamps import format_timestamp
from flags.changes import flag_changes, segment_changes
from flags.changes.properties import in_environment
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.types import Configuration
from flags.validation.parsing import references


def configuration_at(flag_key: str, environment_key: str, time: datetime) -> tuple[Configuration, int]:
    """Return the configuration of a flag at a past time, and its revision.

    It has the flag, its prerequisites and their segments. Raises DomainError `flag_not_found` if the flag did not
    exist, or ValidationFailed if the log may lack entries of that time.
    """
    then = Change.objects.as_of(time)
    keys = [flag_key] if is_key(flag_key) else []
    flags = _closure(then, flag_changes.KIND, keys, lambda source: in_environment(source, environment_key))
    _require_entries(flag_changes.KIND, {*keys, *_all_named(flag_changes.KIND, flags)}, time)
    if flag_key not in flags:
        message = "The flag did not exist at that time."
        detail = Detail("at", DetailCode.UNKNOWN_REFERENCE, message)
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag had the key {flag_key[:100]!r} at that time.", [detail])
    named = _all_named(segment_changes.KIND, flags)
    segments = _closure(then, segment_changes.KIND, named, lambda source: source)
    _require_entries(segment_changes.KIND, named | _all_named(segment_changes.KIND, segments), time)
    configuration = Configuration(
        {key: compile_flag(source) for key, source in flags.items()},
        {key: compile_segment(source) for key, source in segments.items()},
    )
    return configuration, then.latest_revision()


def _require_entries(kind: str, keys: Collection[str], time: datetime) -> None:
    """Refuse times before which a needed entry may have been deleted: a later entry replaced it, and is old itself."""
    since = complete_since(timezone.now())
    if since is None or time >= since:
        return
    if Change.objects.filter(kind__in=kinds_of(kind), key__in=keys, at__gt=time, at__lte=since).exists():
        message = f"Must be {format_timestamp(since)} or later: the change log does not have all of what was before."
        raise ValidationFailed([Detail("at", DetailCode.INVALID_VALUE, message)])


def _closure(
    then: ChangeQuerySet, kind: str, keys: Iterable[str], read: Callable[[Document], Document]
) -> Mapping[str, Document]:
    """Return the documents of these keys and, step by step, of the keys that they name. Each step takes one query."""
    closure: dict[str, Document] = {}
    seen: set[str] = set()
    wanted = set(keys)
    while wanted:
        seen |= wanted
        sources = {key: read(source) for key, source in _documents(then, kind, wanted)}
        closure |= sources
        wanted = {key for source in sources.values() for key in _named(kind, source)} - seen
    return closure


def _documents(then: ChangeQuerySet, kind: str, keys: Iterable[str]) -> Iterable[tuple[str, Document]]:
    if kind == segment_changes.KIND:
        return segment_changes.segments_in_log(then, list(keys)).items()
    newest = then.filter(kind=kind, key__in=keys).order_by().values("key").annotate(newest=Max("revision"))
    changes_of_then = Change.objects.filter(revision__in=newest.values("newest"), after__isnull=False)
    return changes_of_then.values_list("key", "after")


def _all_named(kind: str, sources: Mapping[str, Document]) -> set[str]:
    return {key for source in sources.values() for key in _named(kind, source)}


def _named(kind: str, source: Document) -> list[str]:
    return [reference.key for reference in references(source) if reference.kind == kind]
