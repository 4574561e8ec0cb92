"""Registers the system checks, examinations and periodic tasks of the project, and creates the environments of a
new database.
"""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_migrate, pre_migrate
from django.dispatch import receiver
from django.utils import timezone

from config import checks, maintenance  # noqa: F401 (registers the checks)
from config.change_log.retention import delete_old_changes
from config.database.idempotency import delete_expired
from config.database.timeouts import UNLIMITED, limit_process
from config.doctor import database, distribution, host, proxy, replica  # noqa: F401 (registers what they examine)
from config.keys.environments import create_first_environments
from config.serving.worker_process import worker_starts
from config.webhooks import outbox, sender

maintenance.register("idempotency keys", delete_expired)
maintenance.register("deliveries of webhooks", outbox.clean)
maintenance.register("old changes", delete_old_changes)
worker_starts.connect(sender.start_in_first_worker, dispatch_uid="config.webhooks")


@receiver(pre_migrate, dispatch_uid="config.timeouts")
def allow_long_migrations(**_: Any) -> None:
    """Let migrations take as long as they need. The operator who starts them watches them."""
    limit_process(UNLIMITED)


@receiver(post_migrate, dispatch_uid="config.environments")
def fill_new_database(*, app_config: Any, using: str, **_: Any) -> None:
    """Create the first environments once the tables of this app exist."""
    if app_config.name == "config" and using == "default":
        create_first_environments(now=timezone.now())
