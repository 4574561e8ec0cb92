"""`manage.py maintain`: all periodic work, once. Meant for cron, on as many hosts as one likes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from config.maintenance import maintain
from config.management.operator import OperatorCommand


class Command(OperatorCommand):
    help = "Do all periodic work once. It may run on several hosts at a time: what one does, the others leave to it."

    def handle(self, **_: Any) -> None:
        failed = []
        for report in maintain(timezone.now()):
            (self.stderr if report.has_failed else self.stdout).write(f"{report.task}: {report.words}")
            if report.has_failed:
                failed.append(report.task)
        if failed:
            raise CommandError(f"Not all of it was done: {', '.join(failed)}.")
