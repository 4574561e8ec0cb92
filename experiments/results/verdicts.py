"""The verdicts that were reached, so that one that no longer stands is not taken back without a word.

A verdict may be read at any time, and it follows the data: a `ship` that was reached may be gone at a later look. Each
`ship` and `do_not_ship` is stored with the lifts of the primary metric when it was reached, and when it ended. The
periodic task looks once an hour, and so does everybody who reads results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from django.db import transaction

from experiments.models import Experiment, ResultState, Status
from experiments.models.locks import lock_results
from experiments.results.types import ReachedLift, ReachedVerdict, Results
from experiments.stats.outcomes import Decision
from experiments.stats.types import Estimate

REACHED = (Decision.SHIP, Decision.DO_NOT_SHIP)
MAX_STORED = 50
"""The oldest ones are forgotten beyond this number."""


def read_verdicts(experiment: Experiment) -> list[ReachedVerdict]:
    """Return the verdicts that were reached, the oldest first. There is one query if the state is not loaded."""
    state = getattr(experiment, "result_state", None)
    stored: Any = state.verdicts if state else _stored(experiment)
    return msgspec.convert(stored or [], list[ReachedVerdict])


def record_verdict(results: Results) -> list[ReachedVerdict]:
    """Store that the verdict was reached, or that the last one ended, and return all. Most calls write nothing.

    Frozen results keep what was known. The results are those of the default view, with the primary metric.
    """
    experiment = results.experiment
    known = read_verdicts(experiment)
    changed = _with(known, results)
    if changed == known or experiment.status == Status.DRAFT or experiment.frozen_at is not None:
        return known
    with transaction.atomic():
        [state] = lock_results([experiment.pk])
        changed = _with(msgspec.convert(state.verdicts or [], list[ReachedVerdict]), results)
        state.verdicts = msgspec.to_builtins(changed)
        state.save(update_fields=["verdicts"])
    return changed


def _with(known: list[ReachedVerdict], results: Results) -> list[ReachedVerdict]:
    """Return the verdicts after a look at the results."""
    verdict, now = results.verdict, results.as_of
    if known and known[-1].ended_at is None:
        *earlier, last = known
        if (last.decision, last.variant) == (verdict.decision, verdict.variant) or now <= last.reached_at:
            return known
        known = [*earlier, replace(last, ended_at=now, lifts_at_end=_lifts(results, last.variant))]
    if verdict.decision not in REACHED:
        return known
    lifts = _lifts(results, verdict.variant)
    reached = ReachedVerdict(str(verdict.decision), verdict.variant, results.primary, now, lifts)
    return [*known, reached][-MAX_STORED:]


def _lifts(results: Results, variant: str | None) -> tuple[ReachedLift, ...]:
    primary = results.primary_metric
    compared = [(each.key, each.comparison) for each in primary.variants if each.comparison] if primary else []
    lifts = [
        (key, comparison.lift, comparison.deciding(comparison.lift))
        for key, comparison in compared
        if isinstance(comparison.lift, Estimate) and variant in (None, key)
    ]
    return tuple(ReachedLift(key, lift.estimate, test.lower, test.upper, test.level) for key, lift, test in lifts)


def _stored(experiment: Experiment) -> Any:
    return ResultState.objects.filter(experiment=experiment).values_list("verdicts", flat=True).first()
