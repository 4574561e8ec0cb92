"""Changes of flags, segments and kill switches as sentences, such as `Switch off in production`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from config.change_log.named_users import compares_users, fill, name_user
from config.change_log.sentences import (
    USER_IDS,
    KindWords,
    change_sentence,
    describe_element,
    describe_user,
    list_sentences,
    on_change,
    plain,
)
from config.documents import is_identical
from flags.explanations.rule_words import describe_flag_value

TYPES = {"boolean": "true or false", "string": "text", "number": "number", "object": "JSON"}
"""The types of values in words. A flag without values is on or off."""

Documents = Sequence[Mapping[str, Any]]

_RULE_FIELDS = {
    **{"name": "the name", "comment": "the comment", "salt": "the salt", "userIds": "the user IDs"},
    **{"type": "the kind", "enabled": "the switch", "serves": "the answer", "variant": "the variant"},
    **{"startAt": "the start", "endAt": "the end", "ramp": "the ramp", "percentage": "the share of users"},
    **{"segment": "the segment", "bucketBy": "the attribute that divides the users", "ranges": "the ranges"},
    **{"split": "the split", "conditions": "the conditions", "variants": "the split", "serve": "the answers"},
    **{"experiment": "the experiment", "group": "the group", "forced": "the testers"},
}
_UNSAID = ("name", "comment", "salt", "userIds", "split", "group", "forced")
"""Fields that the description of a rule leaves out or shortens."""


def _switch(old: Any, new: Any, place: str) -> Iterator[str]:
    if bool(old) is not bool(new):
        yield f"Switch {'on' if new else 'off'}{place}"


def _states(old: Any, new: Any, now: datetime) -> Iterator[str]:
    before, after = old or {}, new or {}
    both = [(key, before.get(key) or {}, after.get(key) or {}) for key in dict.fromkeys([*before, *after])]
    for key, one, other in both:
        yield from _switch(one.get("enabled"), other.get("enabled"), f" in {key}")
    for key, one, other in both:
        yield from _rules(one.get("rules") or [], other.get("rules") or [], now, f" in {key}")


def _rules(old: Documents, new: Documents, now: datetime, place: str) -> Iterator[str]:
    """Yield what happens to each rule: it is added, removed, moved or changed."""
    added, removed, changed = [], [], []
    for operation, start, end, new_start, new_end in _matched(old, new):
        if operation == "equal":
            continue
        before, after = [*range(start, end)], [*range(new_start, new_end)]
        number = min(len(before), len(after))
        changed += [*zip(before[:number], after[:number], strict=True)]
        removed += before[number:]
        added += after[number:]
    for index in added:
        source = next((other for other in removed if is_identical(old[other], new[index])), None)
        words = _rule(new[index], now)
        if source is not None:
            removed.remove(source)
            yield fill("{}: {}", f"Move rule {source + 1} to place {index + 1}{place}", words)
        elif index < len(new) - 1:
            yield fill("{}: {}", f"Add a rule at place {index + 1}{place}", words)
        else:
            yield fill("{}: {}", f"Add a rule{place}", words)
    for index in removed:
        yield fill("{}: {}", f"Remove a rule{place}", _rule(old[index], now))
    for before_index, index in changed:
        yield from _changed_rule(old[before_index], new[index], f"rule {index + 1}{place}", now)


def _matched(old: Documents, new: Documents) -> Sequence[tuple[str, int, int, int, int]]:
    before, after = ([json.dumps(rule, sort_keys=True) for rule in rules] for rules in (old, new))
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _rule(rule: Mapping[str, Any], now: datetime) -> str:
    name = f"{plain(rule['name'])}, " if rule.get("name") else ""
    return fill("{}{}", name, describe_flag_value("rules[0]", rule, now) or "")


def _changed_rule(old: Mapping[str, Any], new: Mapping[str, Any], name: str, now: datetime) -> Iterator[str]:
    before, after = (describe_flag_value("rules[0]", rule, now) or "" for rule in (old, new))
    if before != after:
        yield fill("Change {} from {} to {}", name, before, after)
    fields = [field for field in dict.fromkeys([*old, *new]) if not is_identical(old.get(field), new.get(field))]
    unsaid = [field for field in fields if before == after or _is_unsaid(field, old.get(field), new.get(field), now)]
    said = [
        sentence
        for field in unsaid
        for sentence in _changed_field(
            field, f"{_RULE_FIELDS.get(field, 'the details')} of {name}", old.get(field), new.get(field), now
        )
    ]
    yield from said
    if before == after and not said:
        yield f"Change the details of {name}"


def _is_unsaid(field: str, old: Any, new: Any, now: datetime) -> bool:
    """Return whether different descriptions of the rule still do not show how this field differs."""
    if field == "conditions" and old and new:
        words = _field_words(field, now)
        return words(old) == words(new)
    return field in _UNSAID


def _changed_field(field: str, label: str, old: Any, new: Any, now: datetime) -> Iterator[str]:
    if field == USER_IDS:
        yield from list_sentences(label, old or [], new or [], describe_user)
    elif field == "forced":
        yield from list_sentences(label, _testers(old), _testers(new))
    elif field == "conditions" and old and new:
        yield from _conditions(old, new, label, now)
    else:
        words = _split if field == "split" else _field_words(field, now)
        yield from change_sentence(label, words(old) if old else "", words(new) if new else "")


def _testers(forced: Mapping[str, str] | None) -> Sequence[str]:
    return [fill("{} with {}", name_user(user), variant) for user, variant in (forced or {}).items()]


def _field_words(field: str, now: datetime) -> Callable[[Any], str]:
    return lambda value: describe_flag_value(f"rules[0].{field}", value, now) or plain(value)


def _split(parts: Documents) -> str:
    total = sum(part["weight"] for part in parts) or 1
    return " · ".join(f"{part['variant']} {100 * part['weight'] / total:.3g} %" for part in parts)


def _conditions(old: Documents, new: Documents, label: str, now: datetime) -> Iterator[str]:
    """Yield the change as a whole, or the changes of values that the words shorten."""
    before, after = (describe_flag_value("conditions", conditions, now) or "" for conditions in (old, new))
    if before != after:
        yield from change_sentence(label, before, after)
        return
    pairs = zip(old, new, strict=False)
    said = [text for one, other in pairs if not is_identical(one, other) for text in _values(one, other, label)]
    yield from said or change_sentence(label, before, after)


def _values(old: Mapping[str, Any], new: Mapping[str, Any], label: str) -> Iterator[str]:
    """Yield the changes of a condition whose words stay the same, at least that it changes."""
    name = old.get("attribute", "the condition")
    said: list[str] = []
    if isinstance(old.get("value"), list) and isinstance(new.get("value"), list):
        describe = describe_user if compares_users(old) and compares_users(new) else describe_element
        said += list_sentences(f"the values of {name} in {label}", old["value"], new["value"], describe)
    yield from said or [f"Change the details of {name} in {label}"]


def _variants(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    before, after = ({variant["key"]: variant for variant in variants or []} for variants in (old, new))
    for key, variant in after.items():
        value = plain(variant.get("value"))
        if key not in before:
            yield f"Add the variant {key} with the value {value}"
        elif before[key] != variant:
            yield f"Change the value of the variant {key} from {plain(before[key].get('value'))} to {value}"
    for key in before:
        if key not in after:
            yield f"Remove the variant {key} with the value {plain(before[key].get('value'))}"
    if before == after:
        yield "Change the order of the variants"


def _prerequisites(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    before, after = ({wanted["flag"]: _wanted(wanted) for wanted in each or []} for each in (old, new))
    yield from (f"Require that {after[key]}" for key in after if after[key] != before.get(key))
    yield from (f"Remove the condition that {before[key]}" for key in before if key not in after)
    if before == after:
        yield "Change the order of the prerequisites"


def _wanted(prerequisite: Mapping[str, Any]) -> str:
    variants = " or ".join(prerequisite.get("variants", ()))
    return f"{prerequisite['flag']} {f'serves {variants}' if variants else 'is on'}"


def _visibility(old: Any, new: Any, _at: datetime) -> Iterator[str]:
    if (old is False) is not (new is False):
        yield "Hide the flag from client keys" if new is False else "Let client keys see the flag"


def _value(path: str, value: Any, now: datetime) -> str | None:
    match path:
        case "type":
            return TYPES.get(value)
        case "offVariant" | "defaultVariant":
            return str(value)
    return describe_flag_value(path, value, now)


FLAG_WORDS = KindWords(
    labels={
        **{"description": "the description", "type": "the type of value", "tags": "the tags", "owner": "the owner"},
        **{"offVariant": "the variant when off", "defaultVariant": "the variant when on", "expiresAt": "the expiry"},
        "schema": "the JSON Schema",
    },
    describe_value=_value,
    sentences={
        "archivedAt": on_change("Archive", "Restore"),
        "enabled": lambda old, new, _at: _switch(old, new, ""),
        "states": _states,
        "rules": lambda old, new, now: _rules(old or [], new or [], now, ""),
        "variants": _variants,
        "prerequisites": _prerequisites,
        "clientVisible": _visibility,
    },
    missing={"clientVisible": "yes"},
)
SEGMENT_WORDS = KindWords(
    labels={"description": "the description", "userIds": "the user IDs"},
    describe_value=describe_flag_value,
    sentences={
        "conditions": lambda old, new, now: _segment_conditions(old or [], new or [], now),
    },
)
KILL_SWITCH_WORDS = KindWords(
    labels={
        **{"name": "the name", "environment": "the environment", "flags": "the flags"},
        "prefix": "the first characters of the secret",
    },
    sentences={"revokedAt": on_change("Revoke the kill switch", "Make the kill switch valid again")},
)


def _segment_conditions(old: Documents, new: Documents, now: datetime) -> Iterator[str]:
    if old and new:
        yield from _conditions(old, new, "the conditions", now)
    else:
        words = [describe_flag_value("conditions", each, now) if each else "" for each in (old, new)]
        yield from change_sentence("the conditions", words[0] or "", words[1] or "")
