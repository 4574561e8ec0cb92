"""The admin pages of experiments and metrics."""

from experiments.admin import experiments, metrics, uses  # noqa: F401 (registers the pages)
