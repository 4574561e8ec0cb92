"""The app's entry in INSTALLED_APPS: each worker stores what it counts, and old counts go."""

from __future__ import annotations

from django.apps import AppConfig

from config import maintenance
from config.worker_signals import worker_ends, worker_starts


class FlagsConfig(AppConfig):
    name = "flags"

    def ready(self) -> None:
        from flags import usage_storage  # noqa: PLC0415 (models are not there when this file is imported)

        worker_starts.connect(usage_storage.start, dispatch_uid="flags.usage_storage")
        worker_ends.connect(usage_storage.end, dispatch_uid="flags.usage_storage")
        maintenance.register("usage of flags", usage_storage.delete_old)
