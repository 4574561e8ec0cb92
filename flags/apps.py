"""The app's configuration. `flags.subscriptions` connects its signals and registers its maintenance."""

from __future__ import annotations

from django.apps import AppConfig


class FlagsConfig(AppConfig):
    name = "flags"

    def ready(self) -> None:
        from flags import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
