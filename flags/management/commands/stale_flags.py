"""`manage.py stale_flags`: list stale flags by environment, with the reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from config.timestamps import format_timestamp
from flags.models import Flag, hour_of
from flags.usage.staleness import stale, stale_reasons, with_last_hour, with_stale_reasons

_HEADINGS = ("ENVIRONMENT", "KEY", "REASONS", "LAST EVALUATED", "OWNER")


class Command(OperatorCommand):
    help = "List stale flags: expired, not evaluated for 30 days, or with one outcome for everyone for 30 days."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--environment", help="only flags in the environment with this key (default: all)")
        parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: %(default)s)")

    def handle(self, *, environment: str | None, format: str, **_: Any) -> None:
        environments = [find_environment(environment)] if environment is not None else Environment.objects.all()
        entries = [entry for environment in environments for entry in _stale_in(environment)]
        if format == "json":
            self.stdout.write(json.dumps(entries, indent=2))
        elif entries:
            self._write_table(entries)
        else:
            self.stdout.write("No flag is stale.")

    def _write_table(self, entries: list[dict[str, Any]]) -> None:
        rows = [_HEADINGS, *map(_row, entries)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(map(str.ljust, row, widths)).rstrip())


def _stale_in(environment: Environment) -> Iterator[dict[str, Any]]:
    flags = with_stale_reasons(Flag.objects.in_environment(environment), environment, timezone.now())
    for flag in with_last_hour(stale(flags), environment).order_by("key"):
        is_own = flag.last_hour is not None and flag.last_hour >= hour_of(flag.created_at)
        yield {
            "environment": environment.key,
            "key": flag.key,
            "reasons": [reason.value for reason in stale_reasons(flag)],
            "lastEvaluatedAt": format_timestamp(flag.last_hour) if is_own else None,
            "owner": flag.owner,
        }


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    last = entry["lastEvaluatedAt"] or "not in 90 days"
    return entry["environment"], entry["key"], ", ".join(entry["reasons"]), last, entry["owner"]
