"""The references from experiments to segments: a segment must exist and cannot be deleted while in use.

Callers hold the lock of the change log.
"""

from __future__ import annotations

from typing import Any

from experiments.models import Experiment, Status
from flags.changes.references import check_conditions
from flags.validation.parsing import references


def check_segments(experiment: Experiment) -> None:
    """Check that the segments in the experiment's conditions exist. Raises ValidationFailed."""
    check_conditions(experiment.conditions)


def name_segment_users(*, segment: str, **_: Any) -> list[str]:
    """Return the drafts and running experiments whose conditions use a segment, as text for a refusal."""
    experiments = Experiment.objects.exclude(status=Status.STOPPED).select_related("environment")
    return [
        f"the experiment {experiment.key} ({experiment.environment.key})"
        for experiment in experiments
        if any(reference.key == segment for reference in references({"conditions": experiment.conditions}))
    ]
