"""`manage.py export_events`: events as a file, in the forms and by the filters of the API."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from tqdm import tqdm

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from events.api.filters import PROPERTY, EventFilter
from events.models import Event, EventQuerySet
from events.queries.exports import FORMS, Form, Page, pages, write

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
    help = "Write events, the newest first, as NDJSON or CSV: all of an environment, or those that the filters find."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument("--event", dest="event", type=_text, help="only events of this name")
        parser.add_argument("--user", dest="userId", type=_text, help="only events of this user")
        parser.add_argument(
            "--experiment", dest="experimentId", type=_text, help="only those of this experiment, by id or key"
        )
        parser.add_argument("--variant", dest="variant", type=_text, help="only those with this variant of it")
        parser.add_argument(
            "--property",
            dest="properties",
            type=_property,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="only those with this property, beside --event or --user; may be repeated",
        )
        parser.add_argument("--from", dest="from", type=_text, help="from this moment or day on")
        parser.add_argument("--to", dest="to", type=_text, help="until this moment, or the end of this day")
        parser.add_argument("--format", choices=FORMS, help="by default what the name of the file says, else ndjson")
        parser.add_argument("--output", default=STANDARD, help="the file to write (default: stdout)")

    def handle(self, *, environment: str | None, output: str, **options: Any) -> None:
        form = FORMS[options["format"] or _form_of(output)]
        events = _find(find_environment(environment), options)
        try:
            with _opened(output) as file:
                self._write(events, form, file, is_shown=output != STANDARD)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"Cannot write {output}: {error.strerror}.") from error
        except DatabaseError as error:
            raise CommandError(f"The database failed, and what was written is not whole: {error}") from error

    def _write(self, events: EventQuerySet, form: Form, file: IO[bytes], *, is_shown: bool) -> None:
        with tqdm(desc="Export", unit=" events", disable=None if is_shown else True) as bar:
            for piece in write(_counted(pages(events), bar), form):
                file.write(piece)
        file.flush()


def _find(environment: Environment, options: dict[str, Any]) -> EventQuerySet:
    data = {name: options[name] for name in _OPTIONS if options[name] is not None}
    data |= {f"{PROPERTY}{name}": value for name, value in options["properties"]}
    found = EventFilter(data, queryset=Event.objects.filter(environment=environment), environment=environment)
    if found.is_valid():
        events: EventQuerySet = found.qs
        return events
    name, [message, *_] = next(iter(found.errors.items()))
    for parameter, option in _OPTIONS.items():
        message = message.replace(f"`{parameter}`", option)
    raise CommandError(f"{_OPTIONS.get(name, '--property')}: {message}")


def _form_of(output: str) -> str:
    ending = Path(output).suffix.removeprefix(".")
    return ending if ending in FORMS else "ndjson"


def _opened(output: str) -> Any:
    return nullcontext(sys.stdout.buffer) if output == STANDARD else Path(output).open("wb")


def _counted(found: Iterable[Page], bar: Any) -> Iterator[Page]:
    for page in found:
        yield page
        bar.update(len(page))


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("must be UTF-8") from None
    if not text:
        raise ArgumentTypeError("must not be empty")
    return text


def _property(text: str) -> tuple[str, str]:
    name, equals, value = _text(text).partition("=")
    if not (equals and value):
        raise ArgumentTypeError("must be a name and a value, such as plan=pro")
    return name, value
