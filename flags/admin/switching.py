"""The question before flags are switched in a protected environment, or off while an experiment drives them.

Switching is never refused, because it is the way to stop harm. But it affects users and stops experiments, so the admin
asks first. Promotions ask the same, even if only rules change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from django.http import HttpRequest
from django.utils import timezone

from config import snapshot
from config.admin.current_environment import current_environment
from config.admin.questions import ask, has_agreed, require_agreement
from config.admin.reasons import lacks_reason, reason_setting
from config.admin.site import Confirmation, DomainAdmin
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Environment
from flags.admin.audience_words import DAY, describe_last_day
from flags.changes.driven_rules import driving_experiment
from flags.models import Flag
from flags.snapshot import configuration
from flags.usage.previews import preview_together


@dataclass(frozen=True, slots=True)
class FlagSwitch:
    """A flag that will be on or off. `as_json` is the flag as the engine will read it, if more than that changes."""

    flag: Flag
    is_on: bool
    as_json: Document | None = None

    @property
    def experiment(self) -> str | None:
        """The experiment that drives the flag."""
        return driving_experiment(self.flag.rules)

    @property
    def driver(self) -> str | None:
        """The experiment that stops measuring."""
        return None if self.is_on else self.experiment

    @property
    def subjects(self) -> list[str]:
        """What the user agrees to, including the experiment, because another one may drive the flag by the time of the
        answer.
        """
        state = "on" if self.is_on else "off"
        return [f"{self.flag.key} is {state}", *([f"{self.flag.key} {self.driver}"] if self.driver else [])]


def ask_before_switching(
    model_admin: DomainAdmin,
    request: HttpRequest,
    switches: Sequence[FlagSwitch],
    environment: Environment | None = None,
) -> None:
    """Ask once before these flags are switched, by default in the current environment.

    Raises Unanswered, or DomainError if the user declined.
    """
    if request.method != "POST":  # after signing in again
        snapshot.refresh()
        _ask_about_kept(model_admin, request, switches, environment or current_environment(request))
    question = switching_question(model_admin, request, switches, environment)
    if question is not None and not has_agreed(model_admin, request, question):
        snapshot.refresh()  # the question evaluates flags
        require_agreement(model_admin, request, with_consequences(model_admin, request, question, switches))


def ask_before_archiving(
    model_admin: DomainAdmin, request: HttpRequest, flags: Sequence[Flag], check: Callable[[], object]
) -> None:
    """Ask before these flags are archived, which turns them off everywhere.

    `check` raises DomainError if the answer would be refused anyway. Raises Unanswered, or DomainError if the user
    declined.
    """
    if not flags:
        return
    environment = current_environment(request)
    what = flags[0].key if len(flags) == 1 else f"{len(flags)} flags"
    question = Confirmation(
        f"Archive {what}?",
        (),
        "Archive",
        is_everywhere=True,
        subjects=[f"{flag.key} is archived" for flag in flags],
        name_to_type=environment.name if environment.protected and len(flags) > 1 else "",
    )
    if has_agreed(model_admin, request, question):
        return
    check()
    switches = [FlagSwitch(flag, is_on=False) for flag in flags]
    lines = [
        "From now on they are off for everyone, in every environment. You can restore them at any time.",
        *_describe_usage(switches, environment, "here", timezone.now()),
    ]
    require_agreement(model_admin, request, replace(question, consequences=lines))


def ask_before_promoting(
    model_admin: DomainAdmin, request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment
) -> None:
    """Ask before a promotion changes these flags. Raises as `ask_before_switching` does."""
    question = promotion_question(model_admin, request, switches, environment)
    if question is not None:
        lines = describe_changes(model_admin, request, switches, environment)
        require_agreement(model_admin, request, replace(question, consequences=lines))


def promotion_question(
    model_admin: DomainAdmin, request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment
) -> Confirmation | None:
    """Return the question before a promotion, without its consequences, or None."""
    question = switching_question(model_admin, request, switches, environment)
    if not (environment.protected and switches) or (question is not None and len(switches) == 1):
        return question
    return Confirmation(
        f"Promote {_name(switches)} to {environment.name}?",
        (),
        "Promote",
        is_dangerous=any(not switch.is_on for switch in _moving(switches)),
        subjects=[f"{switch.flag.key} is promoted" for switch in switches]
        + [subject for switch in _moving(switches) for subject in switch.subjects],
        name_to_type=_name_to_type(switches, environment),
        environment=environment,
    )


def switching_question(
    model_admin: DomainAdmin,
    request: HttpRequest,
    switches: Sequence[FlagSwitch],
    environment: Environment | None = None,
) -> Confirmation | None:
    """Return the question before switching, without its consequences, or None."""
    environment = environment or current_environment(request)
    switches = _asked_about(model_admin, request, switches, environment)
    return _question_about(switches, environment) if switches else None


def _ask_about_kept(
    model_admin: DomainAdmin, request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment
) -> NoReturn:
    """Ask about switches that were interrupted by signing in, in every environment."""
    moving = _moving(switches)
    if not moving:
        raise DomainError(ErrorCode.IN_USE, "The flag is in this state already, so nothing was changed.")
    lines = _describe_consequences(request, moving, environment)
    ask(model_admin, request, replace(_question_about(moving, environment), consequences=lines))


def _question_about(switches: Sequence[FlagSwitch], environment: Environment) -> Confirmation:
    verb = _verb(switches)
    return Confirmation(
        f"{verb} {_name(switches)}?",
        (),
        verb,
        is_dangerous=not all(switch.is_on for switch in switches),
        subjects=[subject for switch in switches for subject in switch.subjects],
        name_to_type=_name_to_type(switches, environment),
        environment=environment,
    )


def _name(switches: Sequence[FlagSwitch]) -> str:
    return switches[0].flag.key if len(switches) == 1 else f"{len(switches)} flags"


def _name_to_type(switches: Sequence[FlagSwitch], environment: Environment) -> str:
    return environment.name if environment.protected and len(switches) > 1 else ""


def with_consequences(
    model_admin: DomainAdmin, request: HttpRequest, question: Confirmation, switches: Sequence[FlagSwitch]
) -> Confirmation:
    """Return the question with what switching does to experiments and to users of the last day."""
    environment = question.environment or current_environment(request)
    switches = _asked_about(model_admin, request, switches, environment)
    return replace(question, consequences=_describe_consequences(request, switches, environment))


def describe_changes(
    model_admin: DomainAdmin, request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment
) -> list[str]:
    """Return what these changes of flags do to users. In a protected environment, all flags count.

    A change of rules affects users as much as a switch.
    """
    changed = switches if environment.protected else _asked_about(model_admin, request, switches, environment)
    return _describe_consequences(request, changed, environment) if changed else []


def _describe_consequences(request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment) -> list[str]:
    driven = [switch for switch in _moving(switches) if switch.driver]
    lines = [_describe_driven(switch, environment) for switch in driven]
    if driven:
        verdict = "The experiment goes on. After a day, its verdict"
        if len(driven) > 1:
            verdict = "The experiments go on. After a day, their verdict"
        lines.append(f"{verdict} is to check the data.")
    kept = [switch for switch in switches if switch.experiment and switch not in driven]
    lines += [_describe_kept(switch, environment) for switch in kept]
    where = "here" if environment == current_environment(request) else f"in {environment.name}"
    return [*lines, *_describe_usage(switches, environment, where, timezone.now())]


def _asked_about(
    model_admin: DomainAdmin, request: HttpRequest, switches: Sequence[FlagSwitch], environment: Environment
) -> list[FlagSwitch]:
    moving = _moving(switches)
    if environment.protected or lacks_reason(request, reason_setting(model_admin, request, environment)):
        return moving
    return [switch for switch in moving if switch.driver]


def _moving(switches: Sequence[FlagSwitch]) -> list[FlagSwitch]:
    return [switch for switch in switches if switch.flag.enabled is not switch.is_on]


def _verb(switches: Sequence[FlagSwitch]) -> str:
    wanted = {switch.is_on for switch in switches}
    return "Switch" if len(wanted) > 1 else f"Switch {'on' if wanted.pop() else 'off'}"


def _describe_driven(switch: FlagSwitch, environment: Environment) -> str:
    flag = switch.flag
    served = f"the variant {flag.off_variant}" if flag.off_variant else "the answer off"
    return (
        f"The experiment {switch.driver} drives the flag {flag.key} in {environment.name}. "
        f"While the flag is off, all users get {served}, and no new users are counted."
    )


def _describe_kept(switch: FlagSwitch, environment: Environment) -> str:
    line = f"The experiment {switch.experiment} drives the flag {switch.flag.key} in {environment.name}."
    if not switch.is_on:
        return f"{line} The flag stays off, so no new users are counted."
    return f"{line} {'Its rule stays.' if switch.flag.enabled else 'New users are counted while the flag is on.'}"


def _describe_usage(switches: Sequence[FlagSwitch], environment: Environment, where: str, now: datetime) -> list[str]:
    keys = [switch.flag.key for switch in switches]
    preview = preview_together(environment, changed=_documents(switches, environment), now=now, within=DAY)
    return describe_last_day(keys, environment, where, now, preview)


def _documents(switches: Sequence[FlagSwitch], environment: Environment) -> list[Document]:
    """Return the flags as they will be. Flags that this process does not know yet are left out."""
    flags = configuration(environment.key).flags
    documents = []
    for switch in switches:
        if switch.as_json is not None:
            documents.append(switch.as_json)
        elif flag := flags.get(switch.flag.key):
            documents.append({**flag.source, "enabled": switch.is_on})
    return documents
