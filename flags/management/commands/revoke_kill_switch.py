"""`manage.py revoke_kill_switch`: revoke a kill switch, whose token is refused at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, actor
from config.timestamps import format_timestamp
from flags.kill_switches.changes import revoke_kill_switch
from flags.models import KillSwitch


class Command(OperatorCommand):
    help = "Revoke a kill switch permanently. Requests with its token are refused at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="the id of the kill switch, as `list_kill_switches` shows it")

    def handle(self, *, id: str, **_: Any) -> None:
        switch = _find(id)
        revoked = revoke_kill_switch(switch, actor=actor(), at=timezone.now())
        assert revoked.revoked_at is not None  # noqa: S101 (revoke_kill_switch sets it)
        when = "was already revoked at" if switch.revoked_at else "was revoked at"
        self.stdout.write(f"Kill switch {revoked.pk} ({revoked.name}) {when} {format_timestamp(revoked.revoked_at)}.")


def _find(text: str) -> KillSwitch:
    try:
        switch = KillSwitch.objects.filter(pk=UUID(text)).first()
    except ValueError:
        switch = None
    if switch is None:
        raise CommandError(f"No kill switch has the id {text!r}; `manage.py list_kill_switches` lists all of them.")
    return switch
