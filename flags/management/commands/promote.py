"""`manage.py promote`: copy the state of flags from one environment to another."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, actor, add_reason, find_environment
from flags.changes.promotion import promote
from flags.management.differences import lines, summary


class Command(OperatorCommand):
    help = "Give flags in one environment the state (on or off, and the rules) that they have in another."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("keys", nargs="*", help="the keys of flags (default: all that are not archived)")
        parser.add_argument("--from", dest="source", required=True, help="the environment that is read")
        parser.add_argument("--to", dest="target", required=True, help="the environment that is written")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        add_reason(parser)

    def handle(self, *, keys: list[str], source: str, target: str, dry_run: bool, reason: str, **_: Any) -> None:
        written = promote(
            source=find_environment(source),
            target=find_environment(target),
            keys=keys or None,
            actor=actor(),
            now=timezone.now(),
            reason=reason,
            is_dry_run=dry_run,
        )
        for line in lines(written):
            self.stdout.write(line)
        self.stdout.write(f"{'Dry run: ' if dry_run else ''}{summary(written)}.")
