"""The signals of `events` and `flags` that `experiments` listens to, and its periodic tasks."""

from __future__ import annotations

from config.change_log.retention import asking_for_history
from config.database.distribution import USER, spread_by_user
from config.management import examinations
from config.management.maintenance import register
from config.serving.worker_process import worker_starts
from events.imports.event_files import events_imported
from events.queries import asking_for_names
from events.recording import events_stored
from events.removal import asking_for_holds, erasing_user
from experiments.exposures.assignment import record_for_flag, stored_for_flags
from experiments.exposures.queries import attributes_read, variants_of_recent_users
from experiments.exposures.recording import names_of_experiment, record_reported
from experiments.lifecycle.new_phase import name_segment_users, open_phases_of_segments
from experiments.lifecycle.transitions import needed_history
from experiments.models import DayValue, Exposure, UserValue
from experiments.results import lag
from experiments.results.archive import refresh_results
from experiments.results.erasure import forget_user, hold_events
from experiments.results.forced_exposures import remove_all_forced_exposures
from experiments.results.outcomes import refresh_outcomes
from experiments.results.unexposed import warn_of_events
from flags import exposures
from flags.changes.references import asking_for_segment_users, segments_changed
from flags.usage import sources

events_stored.connect(record_reported, dispatch_uid="experiments.exposures")
events_imported.connect(warn_of_events, dispatch_uid="experiments.unexposed")
erasing_user.connect(forget_user, dispatch_uid="experiments.erasure")
asking_for_holds.connect(hold_events, dispatch_uid="experiments.erasure")
asking_for_history.connect(needed_history, dispatch_uid="experiments.lifecycle")
asking_for_names.connect(names_of_experiment, dispatch_uid="experiments.exposures")
asking_for_segment_users.connect(name_segment_users, dispatch_uid="experiments.segments")
segments_changed.connect(open_phases_of_segments, dispatch_uid="experiments.new_phase")
worker_starts.connect(lag.start, dispatch_uid="experiments.lag")
exposures.register(load=stored_for_flags, record=record_for_flag)
sources.register(names=attributes_read, variants=variants_of_recent_users)
examinations.register("results", lag.examine, needs_schema=True)
register("exposures of forced variants", remove_all_forced_exposures)  # before the results are refreshed
register("results of experiments", refresh_results)
register("outcomes of experiments", refresh_outcomes)  # after the results are frozen
spread_by_user(Exposure, "experiment_id", USER)
spread_by_user(UserValue)
spread_by_user(DayValue, "state_id", USER, "metric", "since")
