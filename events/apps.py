"""The app's entry in INSTALLED_APPS. `events.subscriptions` says what the app listens to and does
periodically.
"""

from __future__ import annotations

from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "events"

    def ready(self) -> None:
        from events import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
