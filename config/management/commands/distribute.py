"""`manage.py distribute`: spread the tables that grow with users over the workers of a Citus coordinator."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DataError, InternalError, NotSupportedError, OperationalError, ProgrammingError

from config.database.distribution import MAX_SHARDS, SHARDS_A_WORKER, Plan, Step, carry_out, make_plan
from config.database.locks import advisory_lock
from config.database.outages import first_line
from config.management.operator import OperatorCommand


class Command(OperatorCommand):
    help = "Spread events, exposures and totals over the workers of the Citus coordinator that DATABASE_URL names."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show the plan, and change nothing")
        parser.add_argument(
            "--shards",
            type=_number_of_shards,
            metavar="NUMBER",
            help=f"into how many parts each table is divided (default: {SHARDS_A_WORKER} for each worker)",
        )

    def handle(self, *, dry_run: bool, shards: int | None, **_: Any) -> None:
        with advisory_lock("distribute") as is_ours:
            if not is_ours:
                raise CommandError("Another process distributes this database now.")
            plan = make_plan(shards)
            if plan.obstacles:
                raise CommandError("\n".join([*plan.obstacles, "Nothing was changed."]))
            if dry_run:
                self._show(plan)
            else:
                self._carry_out(plan)

    def _show(self, plan: Plan) -> None:
        for step in plan.steps:
            self.stdout.write(f"{step.words}:")
            for statement in step.statements:
                self.stdout.write(f"    {statement};")
        self.stdout.write("Dry run: nothing was changed." if plan.steps else _DONE)

    def _carry_out(self, plan: Plan) -> None:
        def on_step(step: Step) -> None:
            self.stderr.write(f"{step.words} ...")

        try:
            carry_out(plan, on_step)
        except (DataError, InternalError, NotSupportedError, ProgrammingError) as error:
            raise CommandError(f"The database refused a step: {error}\nNothing was changed.") from error
        except OperationalError as error:  # perhaps in the moment of the commit
            words = "Either all tables are spread now, or none. Start what has stopped, and run this again."
            raise CommandError(f"A server was lost: {first_line(error)}.\n{words}") from error
        self.stdout.write(_DONE)


def _number_of_shards(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_SHARDS:
        raise ArgumentTypeError(f"The number must be from 1 to {MAX_SHARDS}.")
    return number


_DONE = "All tables that grow with users are spread."
