"""`manage.py setup`: prepare the database of a fresh checkout. Run again, it changes nothing."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from config.access.accounts import account_as_json, log_account
from config.management.migrating import migrate
from config.management.operator import actor
from config.serving.listening import CannotListen, listen

_ADMIN = "admin"


class Command(BaseCommand):
    help = "Migrate the database, and give a new one its admin user and demo data. A second run changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, help="do nothing unless `serve` can listen on this port afterwards")

    def handle(self, *, port: int | None, **_: Any) -> None:
        if port is not None:
            self._require_port(port)
        self._migrate()
        self._create_admin()
        call_command("demo", "--if-empty", stdout=self.stdout, stderr=self.stderr)
        self.stdout.write(f"The database is ready: {connection.display_name}, {connection.settings_dict['NAME']}")

    def _require_port(self, port: int) -> None:
        try:
            [opened] = listen("127.0.0.1", port, count=1)
        except CannotListen as error:
            raise CommandError(f"{error} Nothing was set up; name another port, as in make run PORT=9000.") from error
        opened.close()

    def _migrate(self) -> None:
        if applied := migrate(self.stdout, verbosity=0):
            self.stdout.write(f"Applied {applied} migrations.")

    def _create_admin(self) -> None:
        if User.objects.exists():
            return
        password = secrets.token_urlsafe(12)
        with transaction.atomic():
            user = User.objects.create_superuser(_ADMIN, password=password)
            log_account(user, None, account_as_json(user), actor=actor(), now=timezone.now())
        self.stdout.write(
            f"Sign in at /admin/ as {_ADMIN} with the password {password}\n"
            f"Write it down, because it is shown only now. `manage.py changepassword {_ADMIN}` sets a new one."
        )
