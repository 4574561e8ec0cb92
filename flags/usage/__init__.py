"""Counts of evaluations: counting, storing and reading them, and the flags that they show to be stale."""
