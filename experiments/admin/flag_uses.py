"""The experiments that use a flag, for the page of this flag."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from config.admin.current_environment import current_environment
from config.admin.navigation import may_view
from experiments.admin.results.history import describe_briefly
from experiments.models import Experiment
from experiments.results.outcomes import stored_outcomes
from flags.admin.usage import FlagUse, asking_for_uses

_MOST = 21
"""The page shows 20, and says that there are others."""


def uses_of_flag(sender: Any, request: HttpRequest, key: str, **_: Any) -> list[FlagUse]:
    """Return the newest experiments of the current environment that use this flag, with at most two queries."""
    if not may_view(request, "experiments.experiment"):
        return []
    experiments = list(Experiment.objects.in_environment(current_environment(request)).filter(flag__key=key)[:_MOST])
    outcomes = stored_outcomes(experiments)
    return [
        FlagUse(
            experiment.key,
            reverse("admin:experiments_experiment_change", args=[experiment.pk]),
            describe_briefly(experiment, outcomes.get(experiment.pk)) or experiment.status,
        )
        for experiment in experiments
    ]


asking_for_uses.connect(uses_of_flag, dispatch_uid="experiments.flag_uses")
