"""Write the rules of flags that experiments drive. The caller opens the transaction.

`driven_rules` protects these rules against other writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from config.change_log.entries import filter_visible
from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from flags.changes import references
from flags.changes.driven_rules import Rules, driving_experiment, locked_rules, own_rules
from flags.changes.flag_changes import KIND, get_flag
from flags.changes.flag_rows import Stamp, change_flag, flag_as_json, state_values, with_state
from flags.changes.properties import in_environment, validate, values_of
from flags.engine.bucketing import BUCKETS, Number, threshold
from flags.models import Flag
from flags.validation.rules import MAX_RULES

_PERCENT = BUCKETS // 100
_OF_EVERYONE = frozenset({"type", "percentage", "variant", "serves"})
"""The fields of a shipped rule that serves everyone."""


class ShipTo(StrEnum):
    AUDIENCE = "audience"
    EVERYONE = "everyone"


def put_rule(log: Writing, *, key: str, environment: Environment, rule: Document, position: int = 0) -> None:
    """Insert the rule of an experiment at `position`, or replace its current rule in place.

    Raises ValidationFailed with the fields of the experiment, or DomainError `in_use` if another experiment drives the
    flag.
    """
    flag = _flag(key, environment)
    _require_free(flag, rule["experiment"])
    _write(log, flag, environment, _rules_with(flag, environment, rule, position))


def check_rule(*, key: str, environment: Environment, rule: Document, position: int = 0) -> Flag:
    """Return the flag, or raise ValidationFailed as `put_rule` would. Another experiment may drive the flag."""
    flag = _flag(key, environment)
    _changed(flag, environment, _rules_with(flag, environment, rule, position))
    return flag


def remove_rule(log: Writing, *, key: str, environment: Environment, experiment: str) -> None:
    """Remove the rule of an experiment. The flag's other rules then decide."""
    flag = _flag(key, environment)
    _require_free(flag, experiment)
    _write(log, flag, environment, own_rules(flag.rules))


def ship(
    log: Writing,
    *,
    key: str,
    environment: Environment,
    experiment: str,
    winner: str | bool,
    control: str | bool,
    holdback: Number = 0,
    ship_to: ShipTo = ShipTo.AUDIENCE,
) -> tuple[Rules, Rules]:
    """Replace the rule of an experiment by rules that serve the winner: to its audience, or to everyone instead of all
    rules.

    `winner` and `control`: what the flag serves for these variants.
    `holdback`: the percentage of users who get the control.

    Return the previous rules and the new ones. Raises ValidationFailed if the flag has no room for the rule of a
    holdback.
    """
    flag = _flag(key, environment)
    _require_free(flag, experiment)
    before = flag.rules
    after = _rules_shipped(flag, experiment, winner, control, holdback, ship_to)
    _write(log, flag, environment, after)
    return before, after


def switch_on(log: Writing, *, key: str, environment: Environment) -> None:
    flag = _flag(key, environment)
    _write(log, flag, environment, flag.rules, enabled=True)


def flag_with_rule(*, key: str, environment: Environment, rule: Document, position: int = 0) -> Document:
    """Return the flag as the engine would read it after `put_rule`. Raises as `put_rule` does."""
    flag = _flag(key, environment)
    _, after = _changed(flag, environment, _rules_with(flag, environment, rule, position))
    return in_environment(after, environment.key)


def flag_shipped(
    *,
    key: str,
    environment: Environment,
    experiment: str,
    winner: str | bool,
    control: str | bool,
    holdback: Number = 0,
    ship_to: ShipTo = ShipTo.AUDIENCE,
) -> Document:
    """Return the flag as the engine would read it after `ship`, switched on. Raises as `ship` does."""
    flag = _flag(key, environment)
    rules = _rules_shipped(flag, experiment, winner, control, holdback, ship_to)
    return _flag_switched_on(flag, environment, rules)


def flag_switched_on(*, key: str, environment: Environment) -> Document:
    """Return the flag as the engine would read it after `switch_on`."""
    flag = _flag(key, environment)
    return _flag_switched_on(flag, environment, flag.rules)


def restore_rules(
    log: Writing,
    *,
    key: str,
    environment: Environment,
    experiment: str,
    revision: int,
    rules: Rules,
    enabled: bool | None = None,
) -> None:
    """Restore the rule of an experiment and the rules after it, if the flag is unchanged since `revision`.

    `enabled` also restores whether the flag is on. Any change that evaluation reads prevents the restoration, even if
    it was reverted, because others may have relied on it. Raises DomainError `in_use` if another experiment drives the
    flag, and `experiment_locked` if the flag changed.
    """
    _require_unchanged(key, environment, experiment, revision)
    _write(log, _flag(key, environment), environment, rules, enabled=enabled)


def _flag(key: str, environment: Environment) -> Flag:
    try:
        flag = get_flag(key, environment)
    except DomainError as error:
        message = f"No flag has the key {key}; create it first."
        raise ValidationFailed([Detail("flag.key", DetailCode.UNKNOWN_REFERENCE, message)]) from error
    if flag.archived_at is not None:
        message = f"The flag {key} is archived; restore it first."
        raise ValidationFailed([Detail("flag.key", DetailCode.UNKNOWN_REFERENCE, message)])
    return flag


def _flag_switched_on(flag: Flag, environment: Environment, rules: Rules) -> Document:
    _, after = _changed(flag, environment, rules, enabled=True)
    return in_environment(after, environment.key)


def _require_unchanged(key: str, environment: Environment, experiment: str, revision: int) -> None:
    later = filter_visible(Change.objects.of_key(KIND, key), environment.key).filter(revision__gt=revision)
    documents = later.reverse().values_list("revision", "before", "after")
    changed = next(
        (number for number, *sides in documents if not is_same(*(_evaluated(side, environment) for side in sides))),
        None,
    )
    if changed is None:
        return
    flag = Flag.objects.in_environment(environment).filter(key=key).first()
    if flag is not None:
        _require_free(flag, experiment)
    message = f"The flag {key} was changed since, in revision {changed}, so its previous rules cannot be restored; "
    raise DomainError(ErrorCode.EXPERIMENT_LOCKED, f"{message}plan a new experiment for it.")


def _evaluated(side: Document | None, environment: Environment) -> Document | None:
    return None if side is None else in_environment(side, environment.key)


def _require_free(flag: Flag, experiment: str) -> None:
    driver = driving_experiment(flag.rules)
    if driver not in (None, experiment):
        message = f"The experiment {driver} drives the flag {flag.key}; stop it first, or choose another flag."
        raise DomainError(ErrorCode.IN_USE, message)


def _write(log: Writing, flag: Flag, environment: Environment, rules: Rules, *, enabled: bool | None = None) -> None:
    enabled = flag.enabled if enabled is None else enabled
    if is_same(flag.rules, list(rules)) and flag.enabled is enabled:
        return
    before = flag_as_json(flag)
    state, _ = _changed(flag, environment, rules, enabled=enabled)
    stamp = Stamp(log.at, log.next_revision())
    changed = change_flag(flag, before, {}, {environment.key: state}, stamp)
    changed.save({environment.key: environment})
    changed.append_to(log)


def _rules_with(flag: Flag, environment: Environment, rule: Document, position: int) -> Rules:
    if driving_experiment(flag.rules) == rule["experiment"]:
        place = len(locked_rules(flag.rules)) - 1
        return [*flag.rules[:place], rule, *flag.rules[place + 1 :]]
    own = own_rules(flag.rules)
    if len(own) >= MAX_RULES:
        message = f"The flag {flag.key} has {MAX_RULES} rules, the most that it may have; remove one."
        raise ValidationFailed([Detail("flag.key", DetailCode.OUT_OF_RANGE, message)])
    if position > len(own):
        message = f"Must be at most {len(own)}, the number of rules that the flag {flag.key} has in {environment.key}."
        raise ValidationFailed([Detail("flag.position", DetailCode.OUT_OF_RANGE, message)])
    return [*own[:position], rule, *own[position:]]


def _changed(
    flag: Flag, environment: Environment, rules: Rules, *, enabled: bool | None = None
) -> tuple[Document, Document]:
    """Return the new state of the flag and the whole flag as JSON. Raises ValidationFailed."""
    before = flag_as_json(flag)
    changes = {"rules": list(rules), "enabled": flag.enabled if enabled is None else enabled}
    try:
        state = state_values(validate(flag.key, {**values_of(before, environment.key), **changes}))
        after = with_state(before, environment.key, state)
        references.check_flag(in_environment(after, environment.key))
    except ValidationFailed as error:
        raise ValidationFailed(_of_experiment(error.details, rules)) from error
    return state, after


def _rules_shipped(
    flag: Flag, experiment: str, winner: str | bool, control: str | bool, holdback: Number, ship_to: ShipTo
) -> Rules:
    shipped = _shipped(_rule_to_ship(flag.rules, experiment, ship_to), winner, control, threshold(holdback))
    rules = [*shipped] if ship_to is ShipTo.EVERYONE else _in_place(flag.rules, shipped)
    if len(rules) > MAX_RULES:
        full = f"the flag {flag.key} has {MAX_RULES} rules, so there is no room for those held back."
        raise ValidationFailed([Detail("holdback", DetailCode.INVALID_VALUE, f"Must be left out: {full}")])
    return rules


def _rule_to_ship(rules: Rules, experiment: str, ship_to: ShipTo) -> Document:
    """Return the rule whose audience gets the winner. Without conditions or shares, that is everyone."""
    everyone = {"experiment": experiment}
    if ship_to is ShipTo.EVERYONE:
        return everyone
    return next((rule for rule in rules if rule.get("experiment") == experiment), everyone)


def _shipped(driven: Document, winner: str | bool, control: str | bool, held_back: int) -> list[Document]:
    """Return the rules that serve the winner. `held_back` is the size of the holdback in buckets."""
    salt, group, percentage = driven["experiment"], driven.get("group"), driven.get("percentage", 100)
    ranges = [{"salt": group["key"], "from": group["from"], "to": group["to"]}] if group else []
    share = [{"salt": salt, "from": 0, "to": percentage}] if percentage != 100 else []
    winners = {"percentage": percentage, **({"salt": salt} if share else {}), **_ranges(ranges), **_serving(winner)}
    held = {"percentage": _percent(held_back), "salt": f"{salt}:holdback", **_ranges([*ranges, *share])}
    is_held = held_back > 0 and winner != control and percentage > 0
    shipped = [{**held, **_serving(control)}, winners] if is_held else [winners]
    conditions = driven.get("conditions")
    selected = {"type": "attribute", "conditions": conditions} if conditions else {"type": "percentage"}
    return [{**selected, **rule} for rule in shipped]


def _in_place(rules: Rules, shipped: list[Document]) -> list[Document]:
    """Return the flag's rules with the shipped rules in place of the experiment's.

    If the flag has no other rules, users outside the audience keep seeing the default.
    """
    place, others = max(0, len(locked_rules(rules)) - 1), own_rules(rules)
    is_for_all = shipped[-1].keys() <= _OF_EVERYONE and shipped[-1]["percentage"] == 100
    rest = others[place:] if others or is_for_all else [{"type": "percentage", "percentage": 100}]
    return [*others[:place], *shipped, *rest]


def _ranges(ranges: list[Document]) -> Document:
    return {"ranges": ranges} if ranges else {}


def _serving(served: str | bool) -> dict[str, Any]:
    """Return the fields that serve a variant or, in a flag without variants, switch it on or off."""
    if isinstance(served, str):
        return {"variant": served}
    return {} if served else {"serves": False}


def _percent(buckets: int) -> float:
    return buckets / _PERCENT if buckets % _PERCENT else buckets // _PERCENT


def _of_experiment(details: Sequence[Detail], rules: Rules) -> Iterator[Detail]:
    """Yield details of the rule under the field names of the experiment."""
    place = max(0, len(locked_rules(rules)) - 1)
    served = rules[place].get("variants", ()) if rules else ()
    serving = {f"variants[{index}].serves": f"flag.serves.{entry['key']}" for index, entry in enumerate(served)}
    for detail in details:
        field = detail.field.removeprefix(f"rules[{place}].")
        if field in serving:
            field = serving[field]
        elif field.startswith("forced."):
            field = field.replace("forced.", "forcedVariants.", 1)
        yield Detail(field, detail.code, detail.message)
