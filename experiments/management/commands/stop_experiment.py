"""`manage.py stop_experiment`: stop an experiment now, or at a moment in the past."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, actor, add_reason, find_environment, parse_time
from config.timestamps import format_timestamp
from experiments.lifecycle.backdating import stop_at
from flags.changes.experiment_rules import ShipTo


class Command(OperatorCommand):
    help = "Stop an experiment now, or at a moment in the past, with or without a winner."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", help="the key of a running experiment")
        parser.add_argument("--at", type=parse_time, help="when it ended, such as 2026-02-14T12:00:00Z (default: now)")
        parser.add_argument("--winner", help="the key of the variant that wins; freezes the results")
        parser.add_argument(
            "--ship-to",
            choices=[*ShipTo],
            help="the users to whom the flag serves the winner (default: audience, the experiment's audience)",
        )
        parser.add_argument(
            "--enable",
            action=BooleanOptionalAction,
            help="with a winner, and only if its flag is off: switch the flag on, or leave it off",
        )
        parser.add_argument(
            "--keep-counting",
            action="store_true",
            help="let events count until the windows of all exposed users are over, instead of cutting them off",
        )
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        add_reason(parser)

    def handle(
        self,
        *,
        experiment: str,
        at: datetime | None,
        winner: str | None,
        ship_to: str | None,
        enable: bool | None,
        keep_counting: bool,
        environment: str | None,
        reason: str,
        **_: Any,
    ) -> None:
        now = timezone.now()
        stopped = stop_at(
            key=experiment,
            environment=find_environment(environment),
            stopped_at=at,
            actor=actor(),
            now=now,
            reason=reason,
            decision={"winner": winner, "ship_to": ship_to, "enable": enable, "keep_counting": keep_counting},
        )
        assert stopped.stopped_at is not None  # noqa: S101 (it has just been stopped)
        shown = f", and {stopped.winner} wins" if stopped.winner else ""
        self.stdout.write(f"{stopped.key} has been stopped since {format_timestamp(stopped.stopped_at)}{shown}.")
        if stopped.counts_until:
            self.stdout.write(f"Open windows go on counting until {format_timestamp(stopped.counts_until)}.")
