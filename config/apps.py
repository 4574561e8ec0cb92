"""The project as an app: it owns the first migration, and sees that a new database has its environments."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils import timezone

from config import maintenance


class ProjectConfig(AppConfig):
    name = "config"
    verbose_name = "Settings"

    def ready(self) -> None:
        from config import checks  # noqa: F401, PLC0415 (registers the checks, which need the models)
        from config.database.idempotency import forget_expired  # noqa: PLC0415 (models are not there at import)

        maintenance.register("idempotency keys", forget_expired)
        post_migrate.connect(_fill_new_database, sender=self)


def _fill_new_database(*, using: str, plan: Any = None, **_: Any) -> None:
    from config.keys.environments import create_first_environments  # noqa: PLC0415 (models are not there at import)

    if using == "default":
        create_first_environments(at=timezone.now())
