"""The flag that an experiment drives: its rule while the experiment runs, and what stands there when it is over.

All are called in the transaction that changes the experiment, and do nothing where it drives no flag.
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
    """The rule of the flag, of an experiment's document as the change log keeps it."""
    source, serves = assignment_source(experiment), experiment["flag"]["serves"]
    return {
        "type": "experiment",
        "experiment": source["experiment"],
        "variants": [{**variant, "serves": serves[variant["key"]]} for variant in source["variants"]],
        **({"percentage": experiment["percentage"]} if "percentage" in experiment else {}),
        **{name: source[name] for name in _OPTIONAL if source[name]},
    }


def check_flag(experiment: Experiment) -> Flag | None:
    """The flag to drive, if any, once it has what it is to serve; whoever drives it now. Raises ValidationFailed."""
    if not experiment.flag:
        return None
    rule = rule_of(document(experiment))
    return changes.check_rule(key=experiment.flag["key"], environment=experiment.environment, rule=rule)


def put_rule(log: Writing, experiment: Experiment) -> None:
    """Have the flag assign users as the experiment does by now."""
    if experiment.flag:
        rule = rule_of(document(experiment))
        changes.put_rule(log, key=experiment.flag["key"], environment=experiment.environment, rule=rule)


def remove_rule(log: Writing, experiment: Experiment) -> Document | None:
    """Let the other rules of the flag decide, and return what `restore_rules` needs; None where there is no flag."""
    if not experiment.flag:
        return None
    key, environment = experiment.flag["key"], experiment.environment
    before = get_flag(key, environment).rules
    changes.remove_rule(log, key=key, environment=environment, experiment=experiment.key)
    return _written(log, before)


def serves_alike(experiment: Experiment, variant: str) -> bool:
    """Whether the flag that it drives serves the same for a variant, if it is one, as for the control."""
    serves = (experiment.flag or {}).get("serves", {})
    return variant in serves and is_same(serves[variant], serves[experiment.variant_keys[0]])


def ship(log: Writing, experiment: Experiment, winner: str, holdback: float) -> Document | None:
    """Have the flag serve the winner to all but so many percent, who see what control does; return as above."""
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
    """Put back what the end of the experiment replaced, with its rule as it is to be by now.

    Raises DomainError `experiment_locked` where the flag was changed after the end of the experiment.
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
        # Nobody has sent a field: something is gone that its rules name.
        causes = " ".join(detail.message for detail in error.details)
        message = f"The flag {key} cannot have the rules back that it had: {causes}"
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message) from error


def _written(log: Writing, before: Sequence[Document]) -> Document:
    """The rules of before, and the revision that replaced them, which is the newest."""
    return {"before": [*before], "revision": log.revision}
