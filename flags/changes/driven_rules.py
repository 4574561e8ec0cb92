"""The rules that experiments write into flags, which no other write may change.

`experiment_rules` writes them.
"""

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


def locked_rules(rules: Rules) -> list[Document]:
    """Return the rule of an experiment and the rules before it, or an empty list.

    The rules before it are locked too, because they decide which users reach it.
    """
    last = next((index for index, rule in enumerate(rules) if _is_of_experiment(rule)), None)
    return [] if last is None else [*rules[: last + 1]]


def with_driven_rule(current: Rules, rules: Rules) -> list[Document]:
    """Return the new rules, with the current rule of an experiment at its current place."""
    own, locked = own_rules(rules), locked_rules(current)
    place = len(locked) - 1
    return [*own[:place], locked[-1], *own[place:]] if locked else own


def require_driven_rule_kept(current: Rules, rules: Any, flag: str = "this flag") -> None:
    """Raise unless new rules begin with the locked rules and contain no other rule of an experiment.

    Raises DomainError `experiment_locked`, or ValidationFailed for a rule of type `experiment` that no experiment
    wrote.
    """
    if not isinstance(rules, list):  # the check of rules refuses it
        return
    locked = locked_rules(current)
    driver = driving_experiment(locked)
    sent = {index: rule for index, rule in enumerate(rules) if _is_of_experiment(rule)}
    message = "Only experiments write rules of this type; leave it out."
    foreign = [index for index, rule in sent.items() if driver is None or rule.get("experiment") != driver]
    if foreign:
        raise ValidationFailed([Detail(f"rules[{index}].type", DetailCode.INVALID_VALUE, message) for index in foreign])
    if locked and not (len(sent) == 1 and is_same(rules[: len(locked)], locked)):
        message = f"The experiment {driver} drives {flag}; keep {_locked_in_words(locked)} unchanged until it stops."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _locked_in_words(locked: Rules) -> str:
    before = len(locked) - 1
    if before == 0:
        return "its rule first and"
    return f"its rule and the {'rule' if before == 1 else f'{before} rules'} before it"


def require_driven_variants_kept(as_json: Document, variants: Any) -> None:
    """Raise DomainError `experiment_locked` if new variants change or remove a variant that an experiment serves."""
    if not isinstance(variants, list) or not all(isinstance(variant, dict) for variant in variants):
        return  # the check of variants refuses it
    old = as_json.get("variants", [])
    for environment, rule in _driven_rules(as_json):
        if bool(old) is not bool(variants):
            advice = "keep its variants" if old else "do not add variants"
            _refuse(rule, environment, f"{advice} until the experiment stops.")
        for served in {variant["serves"] for variant in rule["variants"] if old}:
            if not is_same(_variant(old, served), _variant(variants, served)):
                _refuse(rule, environment, f"keep the variant {served}, which it serves, until the experiment stops.")


def require_not_driven(as_json: Document, what: str) -> None:
    """Raise DomainError `experiment_locked` if an experiment drives the flag in any environment."""
    for environment, rule in _driven_rules(as_json):
        _refuse(rule, environment, f"stop the experiment before you {what} the flag.")


def _driven_rules(as_json: Document) -> list[tuple[str, Document]]:
    states = as_json["states"].items()
    return [(environment, rule) for environment, state in states for rule in state["rules"] if _is_of_experiment(rule)]


def _variant(variants: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any] | None:
    return next((variant for variant in variants if variant.get("key") == key), None)


def _refuse(rule: Document, environment: str, what: str) -> None:
    message = f"The experiment {rule['experiment']} drives this flag in {environment}; {what}"
    raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _is_of_experiment(rule: Any) -> bool:
    return isinstance(rule, dict) and rule.get("type") == RuleType.EXPERIMENT
