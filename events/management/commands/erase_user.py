"""`manage.py erase_user`: delete all stored data of a user permanently."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from events.removal import Erased, erase_user, format_count


class Command(OperatorCommand):
    help = "Delete all events and exposures of a user in one transaction, and report what changed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user_id", metavar="userId", help="the id of the user in events")
        parser.add_argument("--environment", help="the key of an environment (default: all environments)")
        parser.add_argument("--no-input", action="store_true", help="do not ask for confirmation")

    def handle(self, *, user_id: str, environment: str | None, no_input: bool, **_: Any) -> None:
        environments = list(Environment.objects.all()) if environment is None else [find_environment(environment)]
        keys = ", ".join(target.key for target in environments)
        if not no_input and not _is_sure(f"Erase {user_id!r} from {keys}? This cannot be undone. Type yes: "):
            raise CommandError("Nothing was erased.")
        with transaction.atomic():
            results = [(target.key, erase_user(user_id, target)) for target in environments]
        for key, erased in results:
            self.stdout.write(f"{key}: {_describe(erased)}")


def _is_sure(question: str) -> bool:
    try:
        return input(question).strip().lower() == "yes"
    except EOFError:  # stdin is closed
        return False


def _describe(erased: Erased) -> str:
    summary = f"erased {format_count(erased.events, 'event')} and {format_count(erased.exposures, 'exposure')}."
    if not erased.experiments:
        return summary
    changed = ", ".join(f"{experiment.key} ({experiment.status})" for experiment in erased.experiments)
    return f"{summary} The numbers of these experiments changed: {changed}."
