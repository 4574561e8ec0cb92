"""The periodic work of `events`, and its table that grows with users."""

from __future__ import annotations

from config.distribution import tables
from config.maintenance import register
from events.counts.storage import merge_stripes
from events.models import Event
from events.removal.retention import purge_by_setting

register("purge of old events", purge_by_setting)
register("counts of events", merge_stripes)  # after the purge, which reduces counts
tables.register(Event, "id", tables.USER)
