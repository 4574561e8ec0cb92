"""Environments: how they are created and changed, and their snapshot in this process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from config.change_log.reversion import Reversible, Target, UndoPlan, reversibles
from config.change_log.writing import Actor, Writing, changing, writing
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment, ReasonSetting, Source
from config.slugs import check_key, check_name, is_key
from config.snapshot import Table
from config.timestamps import format_timestamp, parse_timestamp

KIND = "environment"
_ADVICE = "give the environment a name that people will read"


_production = re.compile(r"(?<![a-z])(prod|production|live)(?![a-z])", re.IGNORECASE)


def names_production(key: str) -> bool:
    """Return whether the key names a production environment, such as `eu-prod`."""
    return _production.search(key) is not None


def create_environment(
    *,
    key: str,
    name: str,
    protected: bool | None = None,
    change_reason: str = ReasonSetting.OPTIONAL,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> Environment:
    """Add an environment. The first one is the default. Existing flags are off in it and have no
    rules. If `protected` is None, the environment is protected if its key names production.
    """
    details = [*check_key(key), *check_name(name, _ADVICE)]
    if details:
        raise ValidationFailed(details)
    with writing(actor=actor, now=now, reason=reason) as log:
        if Environment.objects.filter(key=key).exists():
            raise DomainError(
                ErrorCode.ALREADY_EXISTS, f"An environment with the key {key} exists already; choose another."
            )
        is_default = not Environment.objects.exists()
        environment = Environment.objects.create(
            key=key,
            name=name,
            is_default=is_default,
            protected=names_production(key) if protected is None else protected,
            change_reason=change_reason,
            created_at=log.at,
        )
        log.append(KIND, object_id=environment.pk, key=key, before=None, after=environment_as_json(environment))
    return environment


def update_environment(
    environment: Environment,
    *,
    name: str | None = None,
    is_default: bool | None = None,
    protected: bool | None = None,
    change_reason: str | None = None,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Environment:
    """Change an environment. `is_default=True` replaces the current default. None leaves a value unchanged."""
    if name is not None and (details := check_name(name, _ADVICE)):
        raise ValidationFailed(details)
    read = partial(Environment.objects.get, pk=environment.pk)
    with changing(read, if_match, actor=actor, now=now, reason=reason) as (log, environment):
        if environment.is_default and is_default is False:
            message = "Make another environment the default instead."
            raise ValidationFailed([Detail("isDefault", DetailCode.INVALID_VALUE, message)])
        if is_default and not environment.is_default:
            _save(log, Environment.objects.default(), is_default=False)
        sent = {"name": name, "is_default": is_default, "protected": protected, "change_reason": change_reason}
        _save(log, environment, **{name: value for name, value in sent.items() if value is not None})
    return environment


def _save(log: Any, environment: Environment, **values: Any) -> None:
    before = environment_as_json(environment)
    for field, value in values.items():
        setattr(environment, field, value)
    after = environment_as_json(environment)
    if after != before:
        environment.save(update_fields=list(values))
        log.append(KIND, object_id=environment.pk, key=environment.key, before=before, after=after)


class Environments(Reversible):
    noun = "environment"
    has_steps = True

    def plan(self, changes: Sequence[Change]) -> UndoPlan:
        if any(change.before is None for change in changes):
            return UndoPlan(why_not="An environment cannot be deleted, but you can rename it or leave it unused.")
        return super().plan(changes)

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        return [environment_as_json(Environment.objects.get(key=change.key)) for change in changes]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        documents = [target.document for target in targets]
        for values in sorted(documents, key=lambda values: bool(values["isDefault"])):  # never two defaults
            _save(
                log,
                Environment.objects.get(key=values["key"]),
                name=values["name"],
                is_default=values["isDefault"],
                protected=values["protected"],
                change_reason=values["changeReason"],
            )

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        raise AssertionError("The plan refuses to delete an environment.")


reversibles[KIND] = Environments()


def environment_as_json(environment: Environment) -> Document:
    return {
        "key": environment.key,
        "name": environment.name,
        "isDefault": environment.is_default,
        "protected": environment.protected,
        "changeReason": str(environment.change_reason),
    }


def create_first_environments(*, now: datetime) -> None:
    """Create `production`, the default, and `staging` in a new database."""
    if not Environment.objects.exists():
        actor = Actor("migrate", Source.COMMAND)
        create_environment(key="production", name="Production", actor=actor, now=now)
        create_environment(key="staging", name="Staging", actor=actor, now=now)


def get_environment(key: str, *, field: str) -> Environment:
    """Return the environment with this key. Raises ValidationFailed with the field that named it."""
    environment = Environment.objects.filter(key=key).first() if is_key(key) else None
    if environment is None:
        keys = ", ".join(Environment.objects.values_list("key", flat=True))
        message = f"No environment has this key; use one of: {keys}."
        raise ValidationFailed([Detail(field, DetailCode.UNKNOWN_REFERENCE, message)])
    return environment


class KnownEnvironments:
    def __init__(self, environments: Mapping[str, Environment]) -> None:
        self.by_key = environments
        self.default = next(environment for environment in environments.values() if environment.is_default)

    def __len__(self) -> int:
        return len(self.by_key)


def _load() -> KnownEnvironments:
    return KnownEnvironments({environment.key: environment for environment in Environment.objects.all()})


def _apply(_known: KnownEnvironments, _changes: Sequence[Change]) -> KnownEnvironments:
    return _load()


def _dump(known: KnownEnvironments) -> list[Document]:
    return [dump_environment(environment) for environment in known.by_key.values()]


def dump_environment(environment: Environment) -> Document:
    """Return the environment as JSON, for `restore_environment`.

    The settings of the admin are left out, because the admin needs the database.
    """
    return {
        "id": environment.pk,
        "key": environment.key,
        "name": environment.name,
        "isDefault": environment.is_default,
        "createdAt": format_timestamp(environment.created_at),
    }


def restore_environment(entry: Document) -> Environment:
    return Environment(
        pk=entry["id"],
        key=entry["key"],
        name=entry["name"],
        is_default=entry["isDefault"],
        created_at=parse_timestamp(entry["createdAt"]),
    )


def _restore(entries: Sequence[Document]) -> KnownEnvironments:
    return KnownEnvironments({entry["key"]: restore_environment(entry) for entry in entries})


known_environments: Table[KnownEnvironments] = Table(
    KIND, load=_load, apply=_apply, dump=_dump, restore=_restore, goes_first=True
)
