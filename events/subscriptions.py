"""The periodic work of `events`, and its table that grows with users."""

from __future__ import annotations

from config.database.distribution import USER, spread_by_user
from config.management.maintenance import register
from events.counts.storage import merge_stripes
from events.models import Event
from events.removal import purge_by_setting

register("purge of old events", purge_by_setting)
register("counts of events", merge_stripes)  # after the purge, which reduces counts
spread_by_user(Event, "id", USER)
