"""The app's entry in INSTALLED_APPS: it listens for the events that report exposures."""

from __future__ import annotations

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from events.ingest import events_stored  # noqa: PLC0415 (models are not there when this file is imported)
        from experiments.exposures import record_reported  # noqa: PLC0415

        events_stored.connect(record_reported, dispatch_uid="experiments.exposures")
