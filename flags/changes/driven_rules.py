"""Rules that experiments wrote, and that everybody else leaves as they are. `flags.experiment_rule` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from flags.engine.types import RuleType

Rules = Sequence[Document]


def driving_experiment(rules: Rules) -> str | None:
    """The key of the experiment that drives a flag with these rules, if one does."""
    return next((rule["experiment"] for rule in rules if _is_of_experiment(rule)), None)


def own_rules(rules: Rules) -> list[Document]:
    """The rules of a flag that no experiment wrote."""
    return [rule for rule in rules if not _is_of_experiment(rule)]


def with_driven_rules(standing: Rules, rules: Rules) -> list[Document]:
    """Rules from elsewhere, for a flag with those that are standing: no experiment runs here that does not run yet."""
    return [*(rule for rule in standing if _is_of_experiment(rule)), *own_rules(rules)]


def require_driven_rules_kept(standing: Rules, rules: Any) -> None:
    """Raise unless rules to be written begin with those that experiments wrote, and have no others of that type.

    Raises DomainError `experiment_locked`, or ValidationFailed for a rule that no experiment wrote.
    """
    if not isinstance(rules, list):  # which others say
        return
    known = [rule for rule in standing if _is_of_experiment(rule)]
    found = {at: rule for at, rule in enumerate(rules) if _is_of_experiment(rule)}
    drivers = [rule["experiment"] for rule in known]
    message = "Only experiments write rules of this type; leave it out."
    new = [at for at, rule in found.items() if rule.get("experiment") not in drivers]
    if new:
        raise ValidationFailed([Detail(f"rules[{at}].type", DetailCode.INVALID_VALUE, message) for at in new])
    if known and not (len(found) == len(known) and is_same(rules[: len(known)], known)):
        message = f"The experiment {drivers[0]} drives this flag; keep its rule first and unchanged until it stops."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def require_driven_variants_kept(document: Document, variants: Any) -> None:
    """Raise DomainError `experiment_locked` where variants to be written are not those that experiments serve."""
    if not isinstance(variants, list) or not all(isinstance(each, dict) for each in variants):  # which others say
        return
    old = document.get("variants", [])
    for environment, rule in _driving(document):
        if bool(old) is not bool(variants):
            _refuse(rule, environment, "have it keep its variants, or none, until that is stopped.")
        for served in {each["serves"] for each in rule["variants"] if old}:
            if not is_same(_variant(old, served), _variant(variants, served)):
                _refuse(
                    rule, environment, f"leave the variant {served}, which it serves, as it is until that is stopped."
                )


def require_not_driven(document: Document, what: str) -> None:
    """Raise DomainError `experiment_locked` where an experiment drives the flag in any environment."""
    for environment, rule in _driving(document):
        _refuse(rule, environment, f"stop that before you {what} the flag.")


def _driving(document: Document) -> list[tuple[str, Document]]:
    states = document["states"].items()
    return [(environment, rule) for environment, state in states for rule in state["rules"] if _is_of_experiment(rule)]


def _variant(variants: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any] | None:
    return next((each for each in variants if each.get("key") == key), None)


def _refuse(rule: Document, environment: str, what: str) -> None:
    message = f"The experiment {rule['experiment']} drives this flag in {environment}; {what}"
    raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _is_of_experiment(rule: Any) -> bool:
    return isinstance(rule, dict) and rule.get("type") == RuleType.EXPERIMENT
