"""`manage.py erase_user`: whatever is stored of what one user did, deleted for good."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from events.removal.batches import several
from events.removal.erasure import Erased, erase_user


class Command(OperatorCommand):
    help = "Delete all events and exposures of a user, in one transaction, and say what went and which numbers changed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user_id", metavar="userId", help="as the events have it")
        parser.add_argument("--environment", help="the key of the only environment to erase from (default: all)")
        parser.add_argument("--no-input", action="store_true", help="do not ask whether you are sure")

    def handle(self, *, user_id: str, environment: str | None, no_input: bool, **_: Any) -> None:
        environments = list(Environment.objects.all()) if environment is None else [find_environment(environment)]
        keys = ", ".join(each.key for each in environments)
        if not no_input and not _is_sure(f"Erase {user_id!r} from {keys}? Nothing brings it back. Type yes: "):
            raise CommandError("Nothing was erased.")
        with transaction.atomic():
            erased = [(each.key, erase_user(user_id, each)) for each in environments]
        for key, gone in erased:
            self.stdout.write(f"{key}: {_in_words(gone)}")


def _is_sure(question: str) -> bool:
    try:
        return input(question).strip().lower() == "yes"
    except EOFError:  # nobody is there to ask
        return False


def _in_words(gone: Erased) -> str:
    what = f"erased {several(gone.events, 'event')} and {several(gone.exposures, 'exposure')}."
    if not gone.experiments:
        return what
    changed = ", ".join(f"{each.key} ({each.status})" for each in gone.experiments)
    return f"{what} The numbers of these experiments changed: {changed}."
