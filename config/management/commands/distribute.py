"""`manage.py distribute`: spread the tables that grow with users over the workers of a Citus coordinator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.database.locks import advisory_lock
from config.distribution.plan import Plan, Step, carry_out, make_plan
from config.management.operator import OperatorCommand


class Command(OperatorCommand):
    help = "Spread events, exposures and totals over the workers of the Citus coordinator that DATABASE_URL names."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show the plan, and change nothing")

    def handle(self, *, dry_run: bool, **_: Any) -> None:
        with advisory_lock("distribute") as is_ours:
            if not is_ours:
                raise CommandError("Another process distributes this database now.")
            plan = make_plan()
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

        carry_out(plan, on_step)
        self.stdout.write(_DONE)


_DONE = "All tables that grow with users are spread."
