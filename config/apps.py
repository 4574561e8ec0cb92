"""The configuration of the app for Django. `config.subscriptions` connects its receivers and
periodic tasks, and `config.admin.theme_lists` changes the theme.
"""

from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "config"
    verbose_name = "Settings"

    def ready(self) -> None:
        from config import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
        from config.admin import log_ins  # noqa: F401, PLC0415 (connects, too)
        from config.admin.theme_lists import make_headers_once, shorten_cells  # noqa: PLC0415 (the theme needs the models, too)

        make_headers_once()
        shorten_cells()
