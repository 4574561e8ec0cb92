"""Rules that experiments wrote, which no other write may change. `flags.experiment_rule` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from flags.engine.types import RuleType

Rules = Sequence[Document]


def driving_experiment(rules: Rules) -> str | None:
    """Return the key of the experiment that drives a flag with these rules, if any."""
    return next((rule["experiment"] for rule in rules if _is_of_experiment(rule)), None)


def own_rules(rules: Rules) -> list[Document]:
    """Return the rules that no experiment wrote."""
    return [rule for rule in rules if not _is_of_experiment(rule)]


def with_driven_rules(current: Rules, rules: Rules) -> list[Document]:
    """Return the current rules of experiments, followed by those of `rules` that no experiment wrote."""
    return [*(rule for rule in current if _is_of_experiment(rule)), *own_rules(rules)]


def require_driven_rules_kept(current: Rules, rules: Any) -> None:
    """Raise unless new rules begin with the current rules of experiments, and have no others of that type.

    Raises DomainError `experiment_locked`, or ValidationFailed for a rule that no experiment wrote.
    """
    if not isinstance(rules, list):  # the check of rules refuses it
        return
    driven = [rule for rule in current if _is_of_experiment(rule)]
    sent = {index: rule for index, rule in enumerate(rules) if _is_of_experiment(rule)}
    drivers = [rule["experiment"] for rule in driven]
    message = "Only experiments write rules of this type; leave it out."
    foreign = [index for index, rule in sent.items() if rule.get("experiment") not in drivers]
    if foreign:
        raise ValidationFailed([Detail(f"rules[{index}].type", DetailCode.INVALID_VALUE, message) for index in foreign])
    if driven and not (len(sent) == len(driven) and is_same(rules[: len(driven)], driven)):
        message = f"The experiment {drivers[0]} drives this flag; keep its rule first and unchanged until it stops."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def require_driven_variants_kept(document: Document, variants: Any) -> None:
    """Raise DomainError `experiment_locked` if new variants change or remove one that an experiment serves."""
    if not isinstance(variants, list) or not all(isinstance(variant, dict) for variant in variants):
        return  # the check of variants refuses it
    old = document.get("variants", [])
    for environment, rule in _driven_rules(document):
        if bool(old) is not bool(variants):
            advice = "keep its variants" if old else "do not add variants"
            _refuse(rule, environment, f"{advice} until the experiment stops.")
        for served in {variant["serves"] for variant in rule["variants"] if old}:
            if not is_same(_variant(old, served), _variant(variants, served)):
                _refuse(rule, environment, f"keep the variant {served}, which it serves, until the experiment stops.")


def require_not_driven(document: Document, what: str) -> None:
    """Raise DomainError `experiment_locked` if an experiment drives the flag in any environment."""
    for environment, rule in _driven_rules(document):
        _refuse(rule, environment, f"stop the experiment before you {what} the flag.")


def _driven_rules(document: Document) -> list[tuple[str, Document]]:
    states = document["states"].items()
    return [(environment, rule) for environment, state in states for rule in state["rules"] if _is_of_experiment(rule)]


def _variant(variants: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any] | None:
    return next((variant for variant in variants if variant.get("key") == key), None)


def _refuse(rule: Document, environment: str, what: str) -> None:
    message = f"The experiment {rule['experiment']} drives this flag in {environment}; {what}"
    raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _is_of_experiment(rule: Any) -> bool:
    return isinstance(rule, dict) and rule.get("type") == RuleType.EXPERIMENT
