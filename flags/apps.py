"""The app's entry in INSTALLED_APPS. `flags.subscriptions` says what the app listens to and does periodically."""

from __future__ import annotations

from django.apps import AppConfig


class FlagsConfig(AppConfig):
    name = "flags"

    def ready(self) -> None:
        from flags import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
