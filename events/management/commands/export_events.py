"""`manage.py export_events`: write events to a file, with the formats and filters of the API."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from tqdm import tqdm

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from events.api.filters import PROPERTY, EventFilter
from events.exports import FORMATS, Format, Page, pages, write
from events.models import Event, EventQuerySet

STANDARD = "-"
_OPTIONS = {
    "event": "--event",
    "userId": "--user",
    "experimentId": "--experiment",
    "variant": "--variant",
    "from": "--from",
    "to": "--to",
}


class Command(OperatorCommand):
    help = "Write the events of an environment as NDJSON or CSV, newest first: all, or those that match the filters."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument("--event", dest="event", type=_not_empty, help="only events with this name")
        parser.add_argument("--user", dest="userId", type=_not_empty, help="only events of this user")
        parser.add_argument(
            "--experiment", dest="experimentId", type=_not_empty, help="only events of this experiment, by id or key"
        )
        parser.add_argument("--variant", dest="variant", type=_not_empty, help="only events with this variant")
        parser.add_argument(
            "--property",
            dest="properties",
            type=_property,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="only events with this property; needs --event or --user, and may be repeated",
        )
        parser.add_argument("--from", dest="from", type=_not_empty, help="only events at or after this time or day")
        parser.add_argument(
            "--to", dest="to", type=_not_empty, help="only events up to this time, or the end of this day"
        )
        parser.add_argument("--format", choices=FORMATS, help="default: by the name of the file, or else ndjson")
        parser.add_argument("--output", default=STANDARD, help="the file to write (default: stdout)")

    def handle(self, *, environment: str | None, output: str, **options: Any) -> None:
        file_format = FORMATS[options["format"] or _format_of(output)]
        events = _find(find_environment(environment), options)
        try:
            with _opened(output) as file:
                self._write(events, file_format, file, is_shown=output != STANDARD)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"Cannot write {_name(output)}: {error.strerror}.") from error
        except DatabaseError as error:
            left = "the export is incomplete" if output == STANDARD else f"{output} was not written"
            raise CommandError(f"The database failed, so {left}: {error}") from error

    def _write(self, events: EventQuerySet, file_format: Format, file: IO[bytes], *, is_shown: bool) -> None:
        with tqdm(desc="Export", unit=" events", disable=None if is_shown else True) as bar:
            for piece in write(_counting(pages(events), bar), file_format):
                file.write(piece)
        file.flush()


def _find(environment: Environment, options: dict[str, Any]) -> EventQuerySet:
    data = {name: options[name] for name in _OPTIONS if options[name] is not None}
    data |= {f"{PROPERTY}{name}": value for name, value in options["properties"]}
    filterset = EventFilter(data, queryset=Event.objects.filter(environment=environment), environment=environment)
    if filterset.is_valid():
        events: EventQuerySet = filterset.qs
        return events
    name, [message, *_] = next(iter(filterset.errors.items()))
    for parameter, option in _OPTIONS.items():
        message = message.replace(f"`{parameter}`", option)
    raise CommandError(f"{_OPTIONS.get(name, '--property')}: {message}")


def _format_of(output: str) -> str:
    ending = Path(output).suffix.removeprefix(".")
    return ending if ending in FORMATS else "ndjson"


def _name(output: str) -> str:
    return "to the standard output" if output == STANDARD else output


@contextmanager
def _opened(output: str) -> Iterator[IO[bytes]]:
    """Open the output. A file appears once it is whole, and replaces the one before it only then."""
    path = Path(output)
    if output == STANDARD:
        yield sys.stdout.buffer
    elif path.exists() and not path.is_file():  # a pipe or a device, which nothing can replace
        with path.open("wb") as file:
            yield file
    else:
        path = path.resolve()  # the file behind a link is replaced, not the link
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            with unfinished.open("wb") as file:
                yield file
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _counting(pages: Iterable[Page], bar: Any) -> Iterator[Page]:
    for page in pages:
        yield page
        bar.update(len(page))


def _not_empty(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("must be UTF-8") from None
    if not value:
        raise ArgumentTypeError("must not be empty")
    return value


def _property(argument: str) -> tuple[str, str]:
    name, equals, value = _not_empty(argument).partition("=")
    if not (equals and value):
        raise ArgumentTypeError("must be a name and a value, such as plan=pro")
    return name, value
