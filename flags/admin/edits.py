"""The question before an edit that takes a flag from users of a protected environment, or changes it for many of them.

`Effect.is_asked_about` decides when the admin asks. The question sends the whole form again, so the answer saves what
was asked. The API never asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from config.admin.current_environment import current_environment, environments_of
from config.admin.questions import has_agreed, require_agreement
from config.admin.site import Confirmation, DomainAdmin
from config.change_log.named_users import fill, users_in
from config.documents import Document, is_same
from config.models import Environment
from flags.admin.audience_words import DAY, describe_changed, describe_last_day, describe_lost
from flags.admin.possible_answers import answers_while_on
from flags.admin.switching import FlagSwitch, switching_question, with_consequences
from flags.changes.properties import in_environment
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.types import Configuration
from flags.explanations.rule_words import describe_members, describe_state
from flags.snapshot import configuration
from flags.usage.comparison import Preview
from flags.usage.previews import NoSample, preview_configuration
from flags.usage.sample import PERIOD
from flags.validation.parsing import FLAG, SEGMENT, references

MANY = 0.1
"""The share of recent users who may see something else without a question, if none of them loses a flag."""

_MAX_NAMED = 5


@dataclass(frozen=True)
class Effect:
    """What an edit changes in one environment.

    `keys` are flags that are on there and may serve something else.
    """

    environment: Environment
    before: Configuration
    after: Configuration
    keys: Sequence[str]
    now: datetime

    @property
    def is_asked_about(self) -> bool:
        """Whether a flag ends, a recent user loses a flag, or many recent users see a change."""
        if not self.keys:
            return False
        preview = self.preview
        return bool(self.ended) or (isinstance(preview, Preview) and (preview.lost > 0 or preview.share >= MANY))

    @cached_property
    def ended(self) -> list[str]:
        """Flags whose rules no longer serve anybody what they serve now."""
        return [key for key in self.keys if (now := self._answers(key, self.before)) and not self._kept(key, now)]

    @cached_property
    def preview(self) -> Preview | NoSample:
        return preview_configuration(self.environment, self.after, self.keys, now=self.now)

    def is_off_for_all(self, key: str) -> bool:
        return not self._answers(key, self.after)

    def _answers(self, key: str, own: Configuration) -> set[str]:
        return answers_while_on(key, own, self.now)

    def _kept(self, key: str, answers: set[str]) -> set[str]:
        return answers & self._answers(key, self.after)


def ask_before_saving_flag(
    model_admin: DomainAdmin, request: HttpRequest, as_json: Document, switch: FlagSwitch | None
) -> None:
    """Ask once before a flag is saved. `as_json` is the whole flag, `switch` its state here.

    Call it in the transaction of the save. Raises Unanswered, or DomainError if the user declined.
    """
    here, key, now = current_environment(request), as_json["key"], timezone.now()
    elsewhere = [each for each in _protected(request) if switch is None or each != here]
    effects = [_effect_of_flag(environment, as_json, now) for environment in elsewhere]
    asked = [effect for effect in effects if effect.is_asked_about]
    switching = switching_question(model_admin, request, [switch]) if switch else None
    question = _with_subjects(switching or _question(key, asked), key, asked)
    if not (switching or asked) or has_agreed(model_admin, request, question):
        return
    lines = [line for effect in asked for line in _describe_flag(key, effect, here)]
    if switching and switch:
        lines = [*with_consequences(model_admin, request, switching, [switch]).consequences, *lines]
    require_agreement(model_admin, request, replace(question, consequences=lines))


def ask_before_saving_segment(model_admin: DomainAdmin, request: HttpRequest, as_json: Document) -> None:
    """Ask before a segment is saved. Raises as `ask_before_saving_flag` does."""
    here, key, now = current_environment(request), as_json["key"], timezone.now()
    effects = [_effect_of_segment(environment, as_json, now) for environment in _protected(request)]
    asked = [effect for effect in effects if effect.is_asked_about]
    question = _with_subjects(_question(f"the segment {key}", asked), key, asked)
    if not asked or has_agreed(model_admin, request, question):
        return
    lines = list(_describe_segment(asked[0].before.segments[key].source, as_json))
    lines += [line for effect in asked for line in _describe_effect(effect, here)]
    require_agreement(model_admin, request, replace(question, consequences=lines))


def _protected(request: HttpRequest) -> list[Environment]:
    return [environment for environment in environments_of(request) if environment.protected]


def _effect_of_flag(environment: Environment, as_json: Document, now: datetime) -> Effect:
    before, key = configuration(environment.key), as_json["key"]
    old, new = before.flags.get(key), compile_flag(in_environment(as_json, environment.key))
    is_equal = old is not None and is_same({**old.source, "version": 0}, {**new.source, "version": 0})
    after = Configuration({**before.flags, key: new}, before.segments)
    return Effect(environment, before, after, [] if is_equal else _touched(before, flags={key}), now)


def _effect_of_segment(environment: Environment, as_json: Document, now: datetime) -> Effect:
    before, key = configuration(environment.key), as_json["key"]
    old = before.segments.get(key)
    is_equal = old is None or all(is_same(old.source[name], as_json[name]) for name in ("conditions", "userIds"))
    after = Configuration(before.flags, {**before.segments, key: compile_segment(as_json)})
    return Effect(environment, before, after, [] if is_equal else _touched(before, segments={key}), now)


def _touched(before: Configuration, flags: Collection[str] = (), segments: Collection[str] = ()) -> list[str]:
    """Return the flags that are on and depend on these flags or segments, directly or through others."""
    names = {
        (kind, key): {(named.kind, named.key) for named in references(each.source)}
        for kind, entries in ((FLAG, before.flags), (SEGMENT, before.segments))
        for key, each in entries.items()
    }
    found = {*((FLAG, key) for key in flags), *((SEGMENT, key) for key in segments)}
    while more := {entry for entry, named in names.items() if entry not in found and not named.isdisjoint(found)}:
        found |= more
    return sorted(key for kind, key in found if kind == FLAG and key in before.flags and before.flags[key].enabled)


# what the question says


def _question(what: str, effects: Sequence[Effect]) -> Confirmation:
    environment = effects[0].environment if effects else None
    return Confirmation(f"Save this change of {what}?", (), "Save", environment=environment)


def _with_subjects(question: Confirmation, key: str, effects: Sequence[Effect]) -> Confirmation:
    """Name what the user agrees to: the edit in each environment, and the flags that end."""
    subjects = [f"{key} changes in {effect.environment.key}" for effect in effects]
    ends = [f"{ended} ends in {effect.environment.key}" for effect in effects for ended in effect.ended]
    return replace(question, subjects=[*question.subjects, *subjects, *ends])


def _describe_flag(key: str, effect: Effect, here: Environment) -> Iterator[str]:
    """Yield for whom a flag is on before and after its edit, and what this does to users."""
    own = (each.flags[key].source for each in (effect.before, effect.after))
    before, after = (describe_state(source, effect.now) for source in own)
    if before != after:
        yield fill("Now {} is {}{}. After this change, it is {}.", key, before, _place(effect, here), after)
    yield from _describe_effect(effect, here)


def _describe_segment(now: Mapping[str, Any], then: Document) -> Iterator[str]:
    """Yield which users are in a segment before and after its edit."""
    before, after = (describe_members(each["conditions"], len(each["userIds"])) for each in (now, then))
    if before != after:
        after = after if users_in(after) else after.removesuffix(" yet")
        yield fill("Users in {} now: {}. After this change: {}.", then["key"], before, after)


def _describe_effect(effect: Effect, here: Environment) -> Iterator[str]:
    """Yield which flags end, how many users see something else, and the use of the flags in the last day."""
    where = _place(effect, here, otherwise=" here").strip()
    for key in effect.ended[:_MAX_NAMED]:
        what = "is off for everyone" if effect.is_off_for_all(key) else "serves nobody what it serves now"
        yield f"From then on, {key} {what}{_place(effect, here)}."
    if (more := len(effect.ended) - _MAX_NAMED) > 0:
        yield f"The same is true for {more:,} more flag{'' if more == 1 else 's'}."
    yield from dict.fromkeys([*_describe_recent(effect, where), *_describe_day(effect, where)])


def _describe_recent(effect: Effect, where: str) -> Iterator[str]:
    if isinstance(effect.preview, Preview):
        yield describe_changed(effect.preview, where, effect.now, PERIOD, flags=effect.keys)
        if lost := describe_lost(effect.preview, effect.keys):
            yield lost


def _describe_day(effect: Effect, where: str) -> list[str]:
    day = preview_configuration(effect.environment, effect.after, effect.keys, now=effect.now, within=DAY)
    return describe_last_day(effect.keys, effect.environment, where, effect.now, day)


def _place(effect: Effect, here: Environment, otherwise: str = "") -> str:
    return otherwise if effect.environment == here else f" in {effect.environment.name}"
