"""The flag that an experiment drives: its rule while the experiment runs, and its rules afterwards.

Every function runs in the transaction that changes the experiment, and does nothing if there is no flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from experiments.models import Experiment
from experiments.models.documents import experiment_as_json
from experiments.models.phases import assignment_source
from flags.changes import experiment_rules
from flags.changes.experiment_rules import ShipTo
from flags.changes.flag_changes import get_flag
from flags.engine.types import RuleType
from flags.models import Flag

_OPTIONAL = ("conditions", "group", "forced")


def rule_of(experiment: Mapping[str, Any]) -> Document:
    """Return the rule of the flag, from an experiment as JSON."""
    source, serves = assignment_source(experiment), experiment["flag"]["serves"]
    return {
        "type": "experiment",
        "experiment": source["experiment"],
        "variants": [{**variant, "serves": serves[variant["key"]]} for variant in source["variants"]],
        **({"percentage": experiment["percentage"]} if "percentage" in experiment else {}),
        **{name: source[name] for name in _OPTIONAL if source[name]},
    }


def check_flag(experiment: Experiment) -> Flag | None:
    """Return the flag to drive, after checking that it has what each variant serves; None without a flag.

    Another experiment may be driving it. Raises ValidationFailed.
    """
    if not experiment.flag:
        return None
    return experiment_rules.check_rule(**_place_of(experiment))


def put_rule(log: Writing, experiment: Experiment) -> None:
    """Write the experiment's rule into the flag: in place of its earlier rule, or else at its position."""
    if experiment.flag:
        experiment_rules.put_rule(log, **_place_of(experiment))


def _place_of(experiment: Experiment) -> dict[str, Any]:
    described = experiment_as_json(experiment)
    flag = described["flag"]
    return {
        "key": flag["key"],
        "environment": experiment.environment,
        "rule": rule_of(described),
        "position": flag.get("position", 0),
    }


def remove_rule(log: Writing, experiment: Experiment) -> Document | None:
    """Remove the rule, so that the other rules of the flag decide.

    Returns what `restore_rules` needs; None without a flag.
    """
    if not experiment.flag:
        return None
    key, environment = experiment.flag["key"], experiment.environment
    before = get_flag(key, environment).rules
    experiment_rules.remove_rule(log, key=key, environment=environment, experiment=experiment.key)
    return _written(log, before)


def serves_alike(experiment: Experiment, variant: str) -> bool:
    """Return whether the flag serves the same value for this variant as for the control."""
    serves = (experiment.flag or {}).get("serves", {})
    return variant in serves and is_same(serves[variant], serves[experiment.variant_keys[0]])


def is_on(experiment: Experiment) -> bool:
    """Return whether the flag is on; False without a flag."""
    return experiment.flag is not None and get_flag(experiment.flag["key"], experiment.environment).enabled


def removed_rules(experiment: Experiment, ship_to: ShipTo) -> list[tuple[int, Document]]:
    """Return the flag's other rules that shipping removes, each with its number from 1. Shipping to the audience
    removes none.
    """
    if not experiment.flag or ship_to is ShipTo.AUDIENCE:
        return []
    rules = get_flag(experiment.flag["key"], experiment.environment).rules
    return [(number, rule) for number, rule in enumerate(rules, start=1) if rule["type"] != RuleType.EXPERIMENT]


def ship(
    log: Writing, experiment: Experiment, winner: str, holdback: float, ship_to: ShipTo, *, is_switched_on: bool
) -> Document | None:
    """Let the flag serve the winner. `holdback` percent of these users see the control.

    With `is_switched_on`, a change of its own switches the flag on. Returns what `restore_rules` needs; None without a
    flag.
    """
    if not experiment.flag:
        return None
    before, _ = experiment_rules.ship(log, **_shipment(experiment, winner, holdback, ship_to))
    if not is_switched_on:
        return _written(log, before)
    experiment_rules.switch_on(log, key=experiment.flag["key"], environment=experiment.environment)
    return {**_written(log, before), "enabled": False}


def _shipment(experiment: Experiment, winner: str, holdback: float, ship_to: ShipTo) -> dict[str, Any]:
    flag = experiment_as_json(experiment)["flag"]
    return {
        "key": flag["key"],
        "environment": experiment.environment,
        "experiment": experiment.key,
        "winner": flag["serves"][winner],
        "control": flag["serves"][experiment.variant_keys[0]],
        "holdback": holdback,
        "ship_to": ship_to,
    }


def flag_from_start(experiment: Experiment) -> Document | None:
    """Return the flag as it will be after the start, for the engine; None without a flag. Raises ValidationFailed."""
    return experiment_rules.flag_with_rule(**_place_of(experiment)) if experiment.flag else None


def flag_shipped(experiment: Experiment, winner: str, holdback: float, ship_to: ShipTo) -> Document:
    """Return the flag as it would be after shipping, and on, for the engine. Raises ValidationFailed."""
    return experiment_rules.flag_shipped(**_shipment(experiment, winner, holdback, ship_to))


def flag_switched_on(experiment: Experiment) -> Document:
    """Return the flag as it would be if only it were on, for the engine."""
    return experiment_rules.flag_switched_on(
        key=experiment_as_json(experiment)["flag"]["key"], environment=experiment.environment
    )


def restore_rules(log: Writing, experiment: Experiment, written: Document) -> None:
    """Restore the rules that the end of the experiment replaced, with the current rule of the experiment.

    Raises DomainError `experiment_locked` if the flag was changed after the end of the experiment.
    """
    if not experiment.flag:
        return
    key, current = experiment.flag["key"], rule_of(experiment_as_json(experiment))
    rules = [current if rule["type"] == RuleType.EXPERIMENT else rule for rule in written["before"]]
    try:
        experiment_rules.restore_rules(
            log,
            key=key,
            environment=experiment.environment,
            experiment=experiment.key,
            revision=written["revision"],
            rules=rules,
            enabled=written.get("enabled"),
        )
    except ValidationFailed as error:
        # The caller sent no field: something that the rules refer to no longer exists.
        causes = " ".join(detail.message for detail in error.details)
        message = f"The previous rules of flag {key} cannot be restored: {causes}"
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message) from error


def _written(log: Writing, before: Sequence[Document]) -> Document:
    """Return the previous rules and the revision that replaced them. The caller adds `enabled` if it switched the flag
    on.
    """
    return {"before": [*before], "revision": log.revision}
