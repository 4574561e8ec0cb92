"""The app's entry in INSTALLED_APPS. `config.subscriptions` says what the app listens to and does
periodically.
"""

from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "config"
    verbose_name = "Settings"

    def ready(self) -> None:
        from config import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
