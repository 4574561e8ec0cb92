"""The configuration of the app for Django. `config.subscriptions` connects its receivers and
periodic tasks.
"""

from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "config"
    verbose_name = "Settings"

    def ready(self) -> None:
        from config import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
