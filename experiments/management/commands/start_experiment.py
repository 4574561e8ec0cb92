"""`manage.py start_experiment`: start a draft now, or at a moment in the past."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, actor, add_reason, find_environment, parse_time
from config.timestamps import format_timestamp
from experiments.lifecycle.backdating import start_at


class Command(OperatorCommand):
    help = "Start an experiment now, or at a moment in the past to import an experiment that ran elsewhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", help="the key of a draft")
        parser.add_argument("--at", type=parse_time, help="when it began, such as 2026-01-31T12:00:00Z (default: now)")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        add_reason(parser)

    def handle(self, *, experiment: str, at: datetime | None, environment: str | None, reason: str, **_: Any) -> None:
        now = timezone.now()
        started = start_at(
            key=experiment,
            environment=find_environment(environment),
            started_at=at,
            actor=actor(),
            now=now,
            reason=reason,
        )
        assert started.started_at is not None  # noqa: S101 (it has just been started)
        self.stdout.write(f"{started.key} has been running since {format_timestamp(started.started_at)}.")
