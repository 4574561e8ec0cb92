"""The app's entry in INSTALLED_APPS: it has periodic work."""

from __future__ import annotations

from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "events"

    def ready(self) -> None:
        from config.maintenance import register  # noqa: PLC0415 (models are not there when this file is imported)
        from events.counts import fold  # noqa: PLC0415
        from events.retention import purge_by_setting  # noqa: PLC0415

        register("purge of old events", purge_by_setting)
        register("counts of events", fold)  # after the purge, which takes away from them
