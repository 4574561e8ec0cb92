"""The app's entry in INSTALLED_APPS: it has periodic work, and listens for events that come and that go."""

from __future__ import annotations

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        # Models are not there when this file is imported.
        from config.maintenance import register  # noqa: PLC0415
        from events.erasure import erasing_user  # noqa: PLC0415
        from events.ingest import events_stored  # noqa: PLC0415
        from events.retention import asking_for_holds  # noqa: PLC0415
        from experiments.assignment import record, stored  # noqa: PLC0415
        from experiments.exposures import record_reported  # noqa: PLC0415
        from experiments.forgetting import forget_user, hold_events  # noqa: PLC0415
        from experiments.naming import name_segment_users  # noqa: PLC0415
        from experiments.phase_changes import open_phases_of_segments  # noqa: PLC0415
        from experiments.results.freezing import refresh_results  # noqa: PLC0415
        from experiments.testers import leave_out_all_testers  # noqa: PLC0415
        from flags import exposing  # noqa: PLC0415
        from flags.references import asking_for_segment_users, segments_changed  # noqa: PLC0415

        events_stored.connect(record_reported, dispatch_uid="experiments.exposures")
        erasing_user.connect(forget_user, dispatch_uid="experiments.forgetting")
        asking_for_holds.connect(hold_events, dispatch_uid="experiments.forgetting")
        asking_for_segment_users.connect(name_segment_users, dispatch_uid="experiments.naming")
        segments_changed.connect(open_phases_of_segments, dispatch_uid="experiments.phase_changes")
        exposing.register(stored=stored, record=record)
        register("exposures of testers", leave_out_all_testers)  # before the results
        register("results of experiments", refresh_results)
