"""`manage.py list_kill_switches`: list all kill switches with their flags and states, without tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.management.operator import OperatorCommand
from config.timestamps import format_timestamp
from flags.models import KillSwitch

_HEADINGS = ("ID", "PREFIX", "NAME", "ENVIRONMENT", "CREATED", "STATE", "FLAGS")


class Command(OperatorCommand):
    help = "List the kill switches, newest first, without their tokens."

    def handle(self, **_: Any) -> None:
        rows = [_HEADINGS, *map(_row, KillSwitch.objects.select_related("environment"))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(map(str.ljust, row, widths)).rstrip())


def _row(switch: KillSwitch) -> Sequence[str]:
    return (
        str(switch.pk),
        switch.prefix,
        switch.name,
        switch.environment.key,
        format_timestamp(switch.created_at),
        "revoked" if switch.revoked_at else "live",
        " ".join(switch.flags),
    )
