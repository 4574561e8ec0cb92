"""What experiments name outside of themselves, segments and a flag: that it is there, and that it stays.

Called by writers while they hold the change log. What an experiment writes into its flag is for `flags.driving`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from config.documents import Document
from config.errors import Detail, DetailCode, ValidationFailed
from experiments.models import Experiment, Status
from flags.engine.parsing import references
from flags.models import Flag
from flags.references import check_conditions


def check_segments(experiment: Experiment) -> None:
    """Check that the segments which the conditions name are there. Raises ValidationFailed."""
    check_conditions(experiment.conditions)


def check_flag(experiment: Experiment) -> None:
    """Check that the flag to drive is there and has what it is to serve. Raises ValidationFailed."""
    if experiment.flag is not None and (details := list(_check_flag(experiment.flag))):
        raise ValidationFailed(details)


def _check_flag(wanted: Document) -> Iterator[Detail]:
    key, found = wanted["key"], Flag.objects.filter(key=wanted["key"]).first()
    if found is None:
        yield Detail("flag.key", DetailCode.UNKNOWN_REFERENCE, f"No flag has the key {key}; create it first.")
        return
    if found.archived_at is not None:
        yield Detail("flag.key", DetailCode.UNKNOWN_REFERENCE, f"The flag {key} is archived; restore it first.")
    variants = [variant["key"] for variant in found.variants]
    for variant, served in wanted["serves"].items():
        field = f"flag.serves.{variant}"
        if not variants and not isinstance(served, bool):
            message = f"The flag {key} has no variants; it serves true or false."
            yield Detail(field, DetailCode.INVALID_VALUE, message)
        elif variants and served not in variants:
            message = f"The flag {key} has no such variant; it has: {', '.join(variants)}."
            yield Detail(field, DetailCode.UNKNOWN_REFERENCE, message)


def name_segment_users(*, segment: str, **_: Any) -> list[str]:
    """The drafts and running experiments whose conditions ask for a segment, for whoever wants to delete it."""
    holding = Experiment.objects.exclude(status=Status.STOPPED).select_related("environment")
    found = (each for each in holding if any(one.key == segment for one in references({"conditions": each.conditions})))
    return [f"the experiment {each.key} ({each.environment.key})" for each in found]
