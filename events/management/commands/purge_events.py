"""`manage.py purge_events`: delete old events in short transactions, by one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from tqdm import tqdm

from config.database.locks import advisory_lock
from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from config.timestamps import parse_timestamp
from events.removal import PURGE_LOCK, Plan, plan_purge, purge, report

_MIN_AGE = timedelta(minutes=1)
"""An experiment holds its events only once its start is committed, shortly after the time of the start."""


class Command(OperatorCommand):
    help = "Delete the events before a time, except those that results of experiments are computed from."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--before", required=True, help="the time, such as 2026-01-31 in UTC, or 2026-01-31T12:00:00Z"
        )
        parser.add_argument("--environment", help="the key of an environment (default: all environments)")
        parser.add_argument("--dry-run", action="store_true", help="report what would be deleted, and delete nothing")

    def handle(self, *, before: str, environment: str | None, dry_run: bool, **_: Any) -> None:
        limit = _read_time(before)
        environments = list(Environment.objects.all()) if environment is None else [find_environment(environment)]
        if dry_run:
            self._show([plan_purge(target, limit) for target in environments])
            return
        with advisory_lock(PURGE_LOCK) as is_ours:
            if not is_ours:
                raise CommandError("Another purge is running, so this one did nothing.")
            self._purge([plan_purge(target, limit) for target in environments])

    def _show(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            self.stdout.write(report(plan, plan.count(), "would delete"))
            self._explain(plan)

    def _purge(self, plans: Sequence[Plan]) -> None:
        total = sum(plan.count() for plan in plans)
        with tqdm(total=total, desc="Purge", unit=" events", disable=None) as bar:
            numbers = [purge(plan, on_progress=bar.update) for plan in plans]
        for plan, number in zip(plans, numbers, strict=True):
            self.stdout.write(report(plan, number))
            self._explain(plan)

    def _explain(self, plan: Plan) -> None:
        for obstacle in plan.obstacles():
            self.stdout.write(f"{plan.environment.key}: {obstacle}")


def _read_time(before: str) -> datetime:
    try:
        limit = parse_timestamp(before)
    except ValueError:
        message = f"Cannot read {before!r}; --before takes a day such as 2026-01-31 or a time in ISO 8601."
        raise CommandError(message) from None
    if limit > timezone.now() - _MIN_AGE:
        raise CommandError("--before must be at least one minute in the past.")
    return limit
