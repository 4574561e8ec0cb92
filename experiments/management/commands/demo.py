"""`manage.py demo`: fill an empty database with the data of an invented shop."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from tqdm import tqdm

from config.management.operator import OperatorCommand, actor, find_environment
from experiments.demo import Extent, fill, is_empty
from experiments.demo_shop import FLAGS, MAX_EVENTS_OF_A_USER, TRIALS


class Command(OperatorCommand):
    help = "Fill an empty database with the flags, experiments and events of an invented shop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--users", type=int, default=5_000, help="the number of users (default: %(default)s)")
        parser.add_argument("--events", type=int, default=40_000, help="the number of events (default: %(default)s)")
        parser.add_argument("--days", type=int, default=14, help="the days of history until now (default: %(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="the seed of the random events (default: %(default)s)")
        parser.add_argument("--if-empty", action="store_true", help="do nothing if the database is not empty")

    def handle(self, *, users: int, events: int, days: int, seed: int, if_empty: bool, **_: Any) -> None:
        if if_empty and not is_empty():
            return
        _check(users, events, days)
        production, staging = find_environment("production"), find_environment("staging")
        with tqdm(total=events, desc="Demo data", unit=" events", disable=None) as bar:
            fill(
                Extent(users, events, days, seed),
                production=production,
                staging=staging,
                actor=actor(),
                now=timezone.now(),
                on_progress=bar.update,
            )
        self.stdout.write(
            f"Wrote demo data: {len(FLAGS)} flags in production and staging, and in production {len(TRIALS)} "
            f"experiments and {events:,} events of {users:,} users over {days} days."
        )


def _check(users: int, events: int, days: int) -> None:
    for name, count, most in (("users", users, 1_000_000), ("events", events, 10_000_000), ("days", days, 3_650)):
        if not 1 <= count <= most:
            raise CommandError(f"--{name} must be 1 to {most:,}.")
    if events < users * MAX_EVENTS_OF_A_USER:
        raise CommandError(f"--events must be at least {MAX_EVENTS_OF_A_USER} times --users.")
