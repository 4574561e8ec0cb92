"""Deleting events: erasing a user, and purging old events."""
