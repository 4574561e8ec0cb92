"""Groups of mutually exclusive experiments. Each experiment has a part of the users, and no two parts overlap.

An experiment holds its part from its creation until it stops, or until the draft is archived. Every write of an
experiment locks the change log, so a part that was found free stays free until the write is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode
from config.models import Environment
from experiments.models import Experiment, Status
from flags.engine.bucketing import BUCKETS, threshold


def require_free(experiment: Experiment) -> None:
    """Check that no other experiment overlaps the part of the group. Raises DomainError `in_use`."""
    group = experiment.group
    if group is None:
        return
    members = [member for member in _members(experiment.environment, group["key"]) if member.pk != experiment.pk]
    start, end = _buckets(group)
    for other in members:
        assert other.group is not None  # noqa: S101 (it is a member)
        other_start, other_end = _buckets(other.group)
        if start < other_end and other_start < end:
            message = (
                f"{_percent(other_start)} to {_percent(other_end)} % of the group belong to the experiment "
                f"{other.key}, which is {other.status}; free parts: {_free(members)}."
            )
            detail = Detail("group", DetailCode.INVALID_VALUE, message)
            raise DomainError(ErrorCode.IN_USE, f"group: {message}", [detail])


def free_in(environment: Environment, key: str) -> str:
    """Return the free parts of a group as text: `0 to 50 %, 75 to 100 %`."""
    return _free(list(_members(environment, key)))


def _free(members: Sequence[Experiment]) -> str:
    parts = list(_gaps(sorted(_buckets(member.group) for member in members if member.group is not None)))
    return ", ".join(f"{_percent(start)} to {_percent(end)} %" for start, end in parts) or "nothing"


def _members(environment: Environment, key: str) -> Iterator[Experiment]:
    """Yield the running experiments of a group, and its drafts that are not archived."""
    holding = Experiment.objects.in_environment(environment).current().exclude(status=Status.STOPPED).order_by("key")
    return (experiment for experiment in holding if experiment.group is not None and experiment.group["key"] == key)


def _buckets(group: Document) -> tuple[int, int]:
    return threshold(group["from"]), threshold(group["to"])


def _gaps(members: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    reached = 0
    for start, end in members:
        if start > reached:
            yield reached, start
        reached = max(reached, end)
    if reached < BUCKETS:
        yield reached, BUCKETS


def _percent(buckets: int) -> str:
    return f"{buckets * 100 / BUCKETS:.3f}".rstrip("0").rstrip(".")
