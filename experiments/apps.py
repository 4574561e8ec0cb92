"""The app's entry in INSTALLED_APPS. Its signals and periodic tasks are in `experiments.subscriptions`."""

from __future__ import annotations

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from experiments import subscriptions  # noqa: F401, PLC0415 (connects on import, once the models are loaded)
