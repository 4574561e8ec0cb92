"""Counts of events by name and quarter of an hour."""
