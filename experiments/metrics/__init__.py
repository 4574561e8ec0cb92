"""Metrics: their definitions, checks and changes."""
