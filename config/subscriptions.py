"""Registers system checks, examinations and periodic tasks, and creates the environments of a new database."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_migrate, pre_migrate
from django.dispatch import receiver
from django.utils import timezone

from config import checks  # noqa: F401 (registers the checks)
from config.access.environments import create_first_environments
from config.change_log.retention import delete_old_changes
from config.database.connections import UNLIMITED, limit_process
from config.database.idempotency import delete_expired
from config.management import examinations, maintenance
from config.management.database_examinations import (
    examine_clock,
    examine_database,
    examine_distribution,
    examine_replica,
)
from config.management.host_examinations import examine_disk, examine_proxy, examine_settings, examine_streams
from config.serving.worker_process import worker_starts
from config.webhooks import outbox
from config.webhooks import sender_thread as sender

examinations.register("database", examine_database)
examinations.register("clock", examine_clock, needs_schema=True)
examinations.register("distribution", examine_distribution, needs_schema=True)
examinations.register("settings", examine_settings)
examinations.register("disk", examine_disk)
examinations.register("proxy", examine_proxy)
examinations.register("streams", examine_streams)
examinations.register("replica", examine_replica)
maintenance.register("idempotency keys", delete_expired)
maintenance.register("deliveries of webhooks", outbox.clean)
maintenance.register("old changes", delete_old_changes)
worker_starts.connect(sender.start_in_first_worker, dispatch_uid="config.webhooks")


@receiver(pre_migrate, dispatch_uid="config.timeouts")
def allow_long_migrations(**_: Any) -> None:
    """Let migrations take as long as they need, because an operator watches them."""
    limit_process(UNLIMITED)


@receiver(post_migrate, dispatch_uid="config.environments")
def fill_new_database(*, app_config: Any, using: str, **_: Any) -> None:
    """Create the first environments once the tables of this app exist."""
    if app_config.name == "config" and using == "default":
        create_first_environments(now=timezone.now())
