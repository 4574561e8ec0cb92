"""The segments that experiments name: that they are there, and that they stay. The flag is for `driving`.

Called by writers while they hold the change log.
"""

from __future__ import annotations

from typing import Any

from experiments.models import Experiment, Status
from flags.changes.references import check_conditions
from flags.engine.parsing import references


def check_segments(experiment: Experiment) -> None:
    """Check that the segments which the conditions name are there. Raises ValidationFailed."""
    check_conditions(experiment.conditions)


def name_segment_users(*, segment: str, **_: Any) -> list[str]:
    """The drafts and running experiments whose conditions ask for a segment, for whoever wants to delete it."""
    holding = Experiment.objects.exclude(status=Status.STOPPED).select_related("environment")
    found = (
        experiment
        for experiment in holding
        if any(reference.key == segment for reference in references({"conditions": experiment.conditions}))
    )
    return [f"the experiment {user.key} ({user.environment.key})" for user in found]
