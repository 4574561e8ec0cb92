"""The flag that an experiment drives: its rule while the experiment runs, and its rules afterwards.

Every function runs in the transaction that changes the experiment. It does nothing if the experiment
drives no flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from experiments.design.phases import assignment_source
from experiments.models import Experiment
from experiments.models.documents import document
from flags.changes.flag_changes import get_flag
from flags.experiment_rule import changes
from flags.models import Flag

_OPTIONAL = ("conditions", "group", "forced")


def rule_of(experiment: Mapping[str, Any]) -> Document:
    """Return the rule of the flag, from an experiment's document in the change log."""
    source, serves = assignment_source(experiment), experiment["flag"]["serves"]
    return {
        "type": "experiment",
        "experiment": source["experiment"],
        "variants": [{**variant, "serves": serves[variant["key"]]} for variant in source["variants"]],
        **({"percentage": experiment["percentage"]} if "percentage" in experiment else {}),
        **{name: source[name] for name in _OPTIONAL if source[name]},
    }


def check_flag(experiment: Experiment) -> Flag | None:
    """Return the flag to drive, or None, after checking that it has what each variant serves.

    Another experiment may be driving it. Raises ValidationFailed.
    """
    if not experiment.flag:
        return None
    rule = rule_of(document(experiment))
    return changes.check_rule(key=experiment.flag["key"], environment=experiment.environment, rule=rule)


def put_rule(log: Writing, experiment: Experiment) -> None:
    """Write the experiment's current rule into the flag."""
    if experiment.flag:
        rule = rule_of(document(experiment))
        changes.put_rule(log, key=experiment.flag["key"], environment=experiment.environment, rule=rule)


def remove_rule(log: Writing, experiment: Experiment) -> Document | None:
    """Remove the rule, so that the other rules of the flag decide.

    Returns what `restore_rules` needs, or None if there is no flag.
    """
    if not experiment.flag:
        return None
    key, environment = experiment.flag["key"], experiment.environment
    before = get_flag(key, environment).rules
    changes.remove_rule(log, key=key, environment=environment, experiment=experiment.key)
    return _written(log, before)


def serves_alike(experiment: Experiment, variant: str) -> bool:
    """Return whether the flag serves the same value for this variant and for the control."""
    serves = (experiment.flag or {}).get("serves", {})
    return variant in serves and is_same(serves[variant], serves[experiment.variant_keys[0]])


def ship(log: Writing, experiment: Experiment, winner: str, holdback: float) -> Document | None:
    """Let the flag serve the winner, except to `holdback` percent of users, who see the control.

    Returns what `restore_rules` needs, or None if there is no flag.
    """
    if not experiment.flag:
        return None
    serves = experiment.flag["serves"]
    before, _ = changes.ship(
        log,
        key=experiment.flag["key"],
        environment=experiment.environment,
        experiment=experiment.key,
        winner=serves[winner],
        control=serves[experiment.variant_keys[0]],
        holdback=holdback,
    )
    return _written(log, before)


def restore_rules(log: Writing, experiment: Experiment, written: Document) -> None:
    """Restore the rules that the end of the experiment replaced, with the experiment's current rule.

    Raises DomainError `experiment_locked` if the flag was changed after the end of the experiment.
    """
    if not experiment.flag:
        return
    key, others = experiment.flag["key"], written["before"][1:]
    try:
        changes.restore_rules(
            log,
            key=key,
            environment=experiment.environment,
            experiment=experiment.key,
            revision=written["revision"],
            rules=[rule_of(document(experiment)), *others],
        )
    except ValidationFailed as error:
        # The caller sent no field: something that the rules refer to no longer exists.
        causes = " ".join(detail.message for detail in error.details)
        message = f"The previous rules of flag {key} cannot be restored: {causes}"
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message) from error


def _written(log: Writing, before: Sequence[Document]) -> Document:
    """Return the previous rules, and the revision that replaced them, which is the newest one."""
    return {"before": [*before], "revision": log.revision}
