"""Per-user totals of the metrics of an experiment and their sums by variant, kept up to date with the events."""
