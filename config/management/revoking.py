"""Commands that revoke something with a secret, which an operator names by its id or by the beginning of the secret."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db.models import Model, Q
from django.utils import timezone
from django.utils.text import capfirst

from config.change_log.writing import Actor
from config.management.operator import OperatorCommand, actor
from config.timestamps import format_timestamp

M = TypeVar("M", bound=Model)


class _Revoke(Protocol):
    def __call__(self, row: Any, /, *, actor: Actor, now: datetime) -> Any: ...


class RevokeCommand(OperatorCommand):
    """Revokes a row of `model`, which `listing` lists, and says since when it is revoked."""

    model: ClassVar[type[Model]]
    listing: ClassVar[str]
    revoke: _Revoke

    def add_arguments(self, parser: CommandParser) -> None:
        help = f"the id or the prefix of the {self.model._meta.verbose_name}, as `{self.listing}` shows them"
        parser.add_argument("name", metavar="id_or_prefix", help=help)

    def handle(self, *, name: str, **_: Any) -> None:
        row: Any = find_by_id_or_prefix(self.model, name, self.listing)
        revoked = self.revoke(row, actor=actor(), now=timezone.now())
        when = "was already revoked at" if row.revoked_at else "was revoked at"
        noun = capfirst(str(self.model._meta.verbose_name))
        self.stdout.write(f"{noun} {revoked.pk} ({revoked.name}) {when} {format_timestamp(revoked.revoked_at)}.")


def find_by_id_or_prefix(model: type[M], text: str, listing: str) -> M:
    """Return the row with this id or prefix. Raises CommandError, unless there is exactly one.

    The message names `listing`, the command that lists all rows.
    """
    condition = Q(prefix=text)
    with suppress(ValueError):  # not an id, but perhaps a prefix
        condition |= Q(pk=UUID(text))
    rows, names = list(model._default_manager.filter(condition)), model._meta
    if not rows:
        raise CommandError(f"No {names.verbose_name} has the id or prefix {text!r}; `manage.py {listing}` lists all.")
    if len(rows) > 1:
        ids = ", ".join(str(row.pk) for row in rows)
        raise CommandError(
            f"{len(rows)} {names.verbose_name_plural} have the prefix {text!r}; use the id of one: {ids}."
        )
    return rows[0]
