"""The admin pages of experiments and metrics."""

from experiments.admin import event_uses, experiments, flag_uses, metrics  # noqa: F401 (registers the pages)
