"""The admin pages of events."""

from events.admin import events  # noqa: F401 (registers the pages)
