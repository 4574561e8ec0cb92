"""Counts of events by name and quarter of an hour, and their sums by hour or day of a time zone."""
