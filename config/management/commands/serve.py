"""`manage.py serve`: run the production server, with one worker per core by default."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.checks import ERROR, WARNING
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connection

from config.database.connections import limit_process, long_statements
from config.database.outages import is_outage
from config.database.schema import SchemaIsBehind, SchemaWasReplaced, require_schema
from config.management.migrating import migrate
from config.management.program import words_of
from config.serving.listening import CannotListen, listen, listen_for_streams
from config.serving.supervisor import Supervisor
from config.snapshot import signal_file


class Command(BaseCommand):
    help = "Serve the API and the admin. On SIGTERM, requests in progress finish first. A worker that dies is replaced."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="the port to listen on (default: %(default)s)")
        parser.add_argument(
            "--stream-port",
            type=int,
            help="the port of the event streams (default: the one after --port, if it is free)",
        )
        parser.add_argument(
            "--workers", type=int, default=os.cpu_count(), help="the number of worker processes (default: one per core)"
        )
        parser.add_argument(
            "--migrate",
            action="store_true",
            help="first apply the migrations that the database lacks; several hosts may do this at the same time",
        )

    def handle(self, *, host: str, port: int, stream_port: int | None, workers: int, **options: Any) -> None:
        # With DEBUG off, any warning of a system check prevents the start.
        is_production = not settings.DEBUG
        self.check(include_deployment_checks=is_production, fail_level=WARNING if is_production else ERROR)
        if workers < 1:
            raise CommandError("--workers must be 1 or more.")
        try:
            sockets = listen(host, port, count=workers)
            port = sockets[0].getsockname()[1]
            stream_socket = listen_for_streams(host, stream_port, beside=port)
        except CannotListen as error:
            raise CommandError(str(error)) from error
        signal_file.read()  # if RUNTIME_DIR has no room for the file, this fails, and not each worker
        self._look_at_database(applies=options["migrate"])
        server = Supervisor(sockets, stream_socket)
        self._greet(host, port=port, stream_port=stream_socket.getsockname()[1])
        server.run()

    def _look_at_database(self, *, applies: bool) -> None:
        """Refuse a database that lacks migrations. If it does not answer, the workers check it later."""
        try:
            limit_process(settings.DATABASE_TIMEOUT)
            if applies:
                with long_statements():  # as in the command: an index of a large table takes minutes
                    migrate(self.stdout)
            require_schema()
        except SchemaWasReplaced as error:
            raise CommandError(f"{error}.") from error
        except SchemaIsBehind as error:
            raise CommandError(f"{error}, or serve with --migrate.") from error
        except Error as error:
            if not is_outage(error):
                raise
            self.stderr.write(
                f"{words_of(error)} This server starts from the last known state in RUNTIME_DIR, if there is one, and "
                "tries again every second.",
                self.style.WARNING,
            )
        finally:
            connection.close()

    def _greet(self, host: str, port: int, stream_port: int) -> None:
        origin = f"http://[{host}]" if ":" in host else f"http://{host}"
        url = f"{origin}:{port}"
        lines = [
            f"Halyard serves {url}",
            f"  admin     {url}/admin/",
            f"  API       {url}/v1/flags",
            f"  API docs  {url}/docs",
            f"  streams   {origin}:{stream_port}",
        ]
        if settings.ANONYMOUS_SCOPE != "none":
            lines.append(
                f"Requests from this machine need no API key: ANONYMOUS_SCOPE is {settings.ANONYMOUS_SCOPE}. "
                "Never set it on a machine that others can reach."
            )
        self.stdout.write("\n".join(lines))
        self.stdout.flush()
