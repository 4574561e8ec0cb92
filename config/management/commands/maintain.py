"""`manage.py maintain`: run all periodic tasks once. It is for cron, on any number of hosts."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from config.management.maintenance import maintain
from config.management.operator import OperatorCommand


class Command(OperatorCommand):
    help = "Run all periodic tasks once. Several hosts can run it at the same time, because each task has a lock."

    def handle(self, **_: Any) -> None:
        failed = []
        for report in maintain(timezone.now()):
            (self.stderr if report.has_failed else self.stdout).write(f"{report.task}: {report.words}")
            if report.has_failed:
                failed.append(report.task)
        if failed:
            raise CommandError(f"These tasks failed: {', '.join(failed)}.")
