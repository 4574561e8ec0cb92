"""Objects for tests, made as the service makes them: through the functions of the domain, with a
change behind each.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import factory
from django.contrib.auth.models import Permission, User
from django.test import TestCase
from django.utils.functional import SimpleLazyObject

from config.access.api_keys import create_key
from config.models import ApiKey, Environment, Scope
from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import create_experiment, get_experiment, start_experiment, stop_experiment
from experiments.models import Experiment
from flags.changes.flag_changes import create_flag
from flags.models import Flag
from tests.conftest import ACTOR, NOON


def _production(_: Any = None) -> Environment:
    return Environment.objects.get(key="production")


class Configuration(factory.Factory):
    """Builds objects that requests see at once, as after a commit."""

    class Meta:
        abstract = True

    @classmethod
    def _generate(cls, strategy: Any, params: Any) -> Any:
        with TestCase.captureOnCommitCallbacks(execute=True):
            return super()._generate(strategy, params)


class FlagFactory(Configuration):
    """A flag of an environment, off and without rules; with `on`, on; with `half`, on for half of
    the users.
    """

    class Meta:
        model = Flag

    class Params:
        on = factory.Trait(enabled=True)
        half = factory.Trait(enabled=True, rules=[{"type": "percentage", "percentage": 50}])

    key = factory.Sequence(lambda at: f"flag-{at:04}")
    environment = factory.LazyFunction(_production)

    @classmethod
    def _create(cls, model_class: type[Flag], *args: Any, **values: Any) -> Flag:
        return create_flag(**{"actor": ACTOR, "now": NOON, **values})


class ExperimentFactory(Configuration):
    """A draft with two equal variants; with `running`, started at NOON; with `stopped`, stopped an
    hour later.
    """

    class Meta:
        model = Experiment

    class Params:
        running = factory.Trait(started_at=NOON)
        stopped = factory.Trait(started_at=NOON, stopped_at=NOON + timedelta(hours=1))

    key = factory.Sequence(lambda at: f"experiment-{at:04}")
    environment = factory.LazyFunction(_production)
    variants = factory.LazyFunction(lambda: [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}])
    metrics = factory.LazyFunction(lambda: ["purchase"])
    started_at = None
    stopped_at = None

    @classmethod
    def _create(cls, model_class: type[Experiment], *args: Any, **values: Any) -> Experiment:
        started_at, stopped_at = values.pop("started_at"), values.pop("stopped_at")
        common = {"key": values["key"], "environment": values["environment"], "actor": ACTOR, "now": NOON}
        create_experiment(**{**common, **values})
        if started_at:
            start_experiment(**common, started_at=started_at)
        if stopped_at:
            stop_experiment(**common, stopped_at=stopped_at)
        return get_experiment(values["key"], values["environment"])


class EventFactory(factory.Factory):
    """A stored event of an environment, received when it happened; with `purchase`, one that the
    metrics know.
    """

    class Meta:
        model = Event

    class Params:
        purchase = factory.Trait(name="purchase", properties={"revenue": 10, "currency": "EUR"})

    id = factory.LazyFunction(new_id)
    environment = factory.LazyFunction(_production)
    user_id = factory.Sequence(lambda at: f"user-{at:04}")
    name = "page_viewed"
    timestamp = NOON
    received_at = factory.SelfAttribute("timestamp")
    properties = factory.LazyFunction(dict)

    @classmethod
    def _create(cls, model_class: type[Event], *args: Any, **values: Any) -> Event:
        environment = values.pop("environment")
        record([NewEvent(**values)], environment)
        stored: Event = SimpleLazyObject(lambda: Event.objects.get(pk=values["id"]))  # which few tests look at
        return stored


class KeyFactory(Configuration):
    """A key and its secret, as a pair. It may do everything, unless a scope says less."""

    class Meta:
        model = ApiKey

    name = factory.Sequence(lambda at: f"key {at}")
    environment = factory.LazyFunction(_production)
    scope = Scope.MANAGE

    @classmethod
    def _create(cls, model_class: type[ApiKey], *args: Any, **values: Any) -> tuple[ApiKey, str]:
        return create_key(**{"actor": ACTOR, "now": NOON, "common": values["scope"] == Scope.MANAGE, **values})


def permissions_named(names: Collection[str]) -> list[Permission]:
    """Return the permissions that Django calls so, such as `flags.view_flag`."""
    codenames = [name.partition(".")[2] for name in names]
    rows = Permission.objects.filter(codename__in=codenames).select_related("content_type")
    found = {f"{row.content_type.app_label}.{row.codename}": row for row in rows}
    return [found[name] for name in names]


class UserFactory(factory.django.DjangoModelFactory):
    """A user of the admin with no permission; `permissions` are such as `flags.view_flag`."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    class Params:
        outsider = factory.Trait(is_staff=False)
        retired = factory.Trait(is_active=False)

    username = factory.Sequence(lambda at: f"user{at}")
    is_staff = True

    @factory.post_generation
    def permissions(self: User, create: bool, wanted: Any, **_: Any) -> None:
        if wanted:
            self.user_permissions.set(permissions_named(wanted))
