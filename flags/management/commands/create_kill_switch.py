"""`manage.py create_kill_switch`: create a kill switch. Only its token goes to stdout, for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, actor, find_environment
from flags.changes.kill_switches import create_kill_switch


class Command(OperatorCommand):
    help = "Create a kill switch and print its token, which is not stored and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("flags", nargs="+", metavar="FLAG", help="the keys of the flags that it may switch off")
        parser.add_argument("--name", required=True, help="what uses it, such as the name of an alert")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")

    def handle(self, *, flags: Sequence[str], name: str, environment: str | None, **_: Any) -> None:
        where = find_environment(environment)
        switch, token = create_kill_switch(name=name, environment=where, flags=flags, actor=actor(), now=timezone.now())
        self.stderr.write(
            f"Kill switch {switch.pk} in {where.key}: POST /v1/hooks/{switch.pk}. Its token is shown only now:",
            self.style.SUCCESS,  # on stderr, because stdout has only the token
        )
        self.stdout.write(token)
