"""The configuration of the app for Django. `events.subscriptions` connects its receivers and periodic tasks."""

from __future__ import annotations

from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "events"

    def ready(self) -> None:
        from events import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
