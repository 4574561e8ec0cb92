"""Metrics: their definitions, the checks of these, and how they change."""
