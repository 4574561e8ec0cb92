"""Write the rules of flags that experiments drive, in the caller's transaction, each with its own change.

`flags.changes.driven_rules` limits what else may be written of such a flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from config.change_log.history import filter_visible
from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from flags.changes import references
from flags.changes.documents import Stamp, document, save_states, state_values, with_state
from flags.changes.driven_rules import Rules, driving_experiment, own_rules
from flags.changes.flag_changes import KIND, get_flag
from flags.changes.properties import in_environment, validate, values_of
from flags.engine.bucketing import BUCKETS, Number, threshold
from flags.engine.rule_checks import MOST_RULES
from flags.models import Flag

_RULE = "rules[0]."
_PERCENT = BUCKETS // 100


def put_rule(log: Writing, *, key: str, environment: Environment, rule: Document) -> None:
    """Put the rule of an experiment first, and replace its previous rule.

    Raises ValidationFailed with the fields of the experiment, or DomainError `in_use` if another
    one drives the flag.
    """
    flag = _flag(key, environment)
    _require_free(flag, rule["experiment"])
    _write(log, flag, environment, _rules_with(flag, rule))


def check_rule(*, key: str, environment: Environment, rule: Document) -> Flag:
    """Return the flag, or raise ValidationFailed as `put_rule` would. Another experiment may drive the flag."""
    flag = _flag(key, environment)
    _changed(flag, environment, _rules_with(flag, rule))
    return flag


def remove_rule(log: Writing, *, key: str, environment: Environment, experiment: str) -> None:
    """Remove the rule of an experiment, so that the flag's other rules decide again."""
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
) -> tuple[Rules, Rules]:
    """Replace all rules: serve the winner to everyone, except for a holdback that gets the control.

    `winner` and `control` are what the flag serves for these variants. `holdback` is in percent.
    Returns the previous rules, and the new ones.
    """
    flag = _flag(key, environment)
    _require_free(flag, experiment)
    before, after = flag.rules, _shipped(winner, control, threshold(holdback), f"{experiment}:holdback")
    _write(log, flag, environment, after)
    return before, after


def restore_rules(
    log: Writing, *, key: str, environment: Environment, experiment: str, revision: int, rules: Rules
) -> None:
    """Restore the rule of an experiment, and the rules after it, if the flag has not changed here since `revision`.

    A change counts even if it was reverted, because others may have relied on it in between. Raises
    DomainError `in_use` if another experiment now drives the flag, and otherwise
    `experiment_locked`.
    """
    _require_unchanged(key, environment, experiment, revision)
    _write(log, _flag(key, environment), environment, rules)


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


def _require_unchanged(key: str, environment: Environment, experiment: str, revision: int) -> None:
    later = filter_visible(Change.objects.of_key(KIND, key), environment.key).filter(revision__gt=revision)
    changed = later.values_list("revision", flat=True).last()
    if changed is None:
        return
    flag = Flag.objects.in_environment(environment).filter(key=key).first()
    if flag is not None:
        _require_free(flag, experiment)
    message = f"The flag {key} was changed since, in revision {changed}, so its previous rules cannot be restored; "
    raise DomainError(ErrorCode.EXPERIMENT_LOCKED, f"{message}plan a new experiment for it.")


def _require_free(flag: Flag, experiment: str) -> None:
    driver = driving_experiment(flag.rules)
    if driver not in (None, experiment):
        message = f"The experiment {driver} drives the flag {flag.key}; stop it first, or choose another flag."
        raise DomainError(ErrorCode.IN_USE, message)


def _write(log: Writing, flag: Flag, environment: Environment, rules: Rules) -> None:
    if is_same(flag.rules, list(rules)):
        return
    before = document(flag)
    state, after = _changed(flag, environment, rules)
    stamp = Stamp(log.at, log.next_revision())
    save_states(flag, {environment.key: state}, {environment.key: environment}, stamp)
    log.append(KIND, object_id=flag.pk, key=flag.key, environment=environment.key, before=before, after=after)


def _rules_with(flag: Flag, rule: Document) -> Rules:
    own = own_rules(flag.rules)
    if len(own) >= MOST_RULES:
        message = f"The flag {flag.key} has {MOST_RULES} rules, the most that it may have; remove one."
        raise ValidationFailed([Detail("flag.key", DetailCode.OUT_OF_RANGE, message)])
    return [rule, *own]


def _changed(flag: Flag, environment: Environment, rules: Rules) -> tuple[Document, Document]:
    """Return the state of a flag with these rules, and the document of the flag. Raises ValidationFailed."""
    before = document(flag)
    try:
        state = state_values(validate(flag.key, {**values_of(before, environment.key), "rules": list(rules)}))
        after = with_state(before, environment.key, state)
        references.check_flag(in_environment(after, environment.key))
    except ValidationFailed as error:
        raise ValidationFailed(_of_experiment(error.details, rules)) from error
    return state, after


def _shipped(winner: str | bool, control: str | bool, held_back: int, salt: str) -> list[Document]:
    """Return the rules that serve a winner. `held_back` is the size of the holdback, in buckets."""
    if isinstance(winner, str):
        everybody: Document = {"type": "percentage", "percentage": 100, "variant": winner}
        held = {"type": "percentage", "percentage": _percent(held_back), "salt": salt, "variant": control}
        return [held, everybody] if held_back else [everybody]
    is_held = held_back > 0 and winner is not control
    on = BUCKETS - held_back if winner and is_held else BUCKETS if winner else held_back if is_held else 0
    return [{"type": "percentage", "percentage": _percent(on), **({"salt": salt} if is_held else {})}]


def _percent(buckets: int) -> float:
    return buckets / _PERCENT if buckets % _PERCENT else buckets // _PERCENT


def _of_experiment(details: Sequence[Detail], rules: Rules) -> Iterator[Detail]:
    """Yield details of the rule of an experiment, with the fields of the experiment."""
    served = rules[0].get("variants", ()) if rules else ()
    serving = {f"variants[{index}].serves": f"flag.serves.{entry['key']}" for index, entry in enumerate(served)}
    for detail in details:
        field = detail.field.removeprefix(_RULE)
        if field in serving:
            field = serving[field]
        elif field.startswith("forced."):
            field = field.replace("forced.", "forcedVariants.", 1)
        yield Detail(field, detail.code, detail.message)
