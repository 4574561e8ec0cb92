"""Every write through every door leaves exactly its rows in the change log, and nothing was written
that it misses.

A door that the tables below do not know fails `test_tables__name_every_door_that_there_is`.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from config.access.environments import create_environment
from config.change_log.writing import Actor
from config.models import Change, Environment, Source
from config.webhooks.outbox import queue_test
from config.webhooks.writes import create_webhook
from experiments.metrics.changes import create_metric
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.changes.kill_switches import create_kill_switch
from flags.changes.segment_changes import create_segment, update_segment
from flags.models import Flag
from tests.admin import AdminClient, filled
from tests.config.change_log import doors
from tests.config.change_log.truth import (
    DOCUMENTS,
    NO_CONFIGURATION,
    check_that_the_log_is_the_whole_truth,
    in_words,
)
from tests.config.change_log.writes import (
    ADMIN,
    API,
    ASKING,
    BECAUSE,
    COMMANDS,
    DRIVEN,
    FILE,
    HISTORY,
    NO_DOORS,
)
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory
from tests.transactions import rolled_back


class World:
    """One object for each kind of write, and its actor."""

    def __init__(self, production: Environment, folder: Path) -> None:
        which = {"environment": production, "actor": ACTOR, "now": NOON}
        standing = FlagFactory(key="standing", tags=["first"])
        update_flag(key="standing", changes={"tags": ["second"]}, **which)
        create_segment(key="crowd", actor=ACTOR, now=NOON)
        crowd = update_segment(key="crowd", changes={"description": "Second"}, actor=ACTOR, now=NOON)
        FlagFactory(key="archived")
        archive_flag(key="archived", **which)
        spare, _ = KeyFactory(name="spare")
        hook, _ = create_webhook(name="hook", url="https://hooks.example.com", actor=ACTOR, now=NOON)
        objects = {
            "standing": standing,
            "archived": Flag.objects.get(key="archived"),
            "on": FlagFactory(key="on", on=True),
            "other": FlagFactory(key="other"),
            "crowd": crowd,
            "audience": create_segment(key="audience", actor=ACTOR, now=NOON),
            "targeting": ExperimentFactory(key="targeting", conditions=ASKING, running=True),
            "measured": create_metric(key="measured", type="count", event="view", actor=ACTOR, now=NOON),
            "unused": create_metric(key="unused", type="count", event="view", actor=ACTOR, now=NOON),
            "draft": ExperimentFactory(key="draft"),
            "running": ExperimentFactory(key="running", metrics=["measured"], running=True),
            "driven": FlagFactory(key="driven", on=True),
            "driving": ExperimentFactory(key="driving", flag=DRIVEN, running=True),
            "stopped": ExperimentFactory(key="stopped", running=True, stopped_at=timezone.now()),
            "trial": create_environment(key="trial", name="Trial", actor=ACTOR, now=NOON),
            "spare": spare,
            "hook": hook,
            "panic": create_kill_switch(
                name="panic", environment=production, flags=["on", "other"], actor=ACTOR, now=NOON
            )[0],
            "sent": queue_test(hook, NOON),
        }
        self.ids = {name: str(item.pk) for name, item in objects.items()} | {"file": str(folder / "flags.yaml")}
        Path(self.ids["file"]).write_text(FILE)
        for name, text in HISTORY.items():
            self.ids[name] = str(folder / f"{name}.csv")
            Path(self.ids[name]).write_text(text)
        by_ada = Actor("user ada", Source.ADMIN)
        create_flag(key="regretted", environment=production, actor=by_ada, now=timezone.now())
        self.ids["regret"] = str(Change.objects.latest_revision())
        _, self.secret = KeyFactory(name="ada")
        self.user = User.objects.create_superuser("ada")
        self.revision = Change.objects.latest_revision()

    def sign_in(self) -> None:
        """Give a test clients of its own, for a client keeps cookies."""
        self.admin = AdminClient()
        self.admin.force_login(self.user)
        self.callers = {"key": CommittingClient(), "user": CommittingClient()}
        self.callers["key"].credentials(HTTP_AUTHORIZATION=f"Bearer {self.secret}")
        self.callers["user"].force_login(self.user)
        for caller in self.callers.values():
            caller.default_format = "json"

    def named(self, text: str) -> str:
        """With ids in place of names in braces."""
        return text.format(**self.ids)

    def named_all(self, value: Any) -> Any:
        return [self.named(element) for element in value] if isinstance(value, list) else value

    def check(self, expected: list[str], *, actor: str, source: str, reason: str) -> None:
        """Assert that the change log has exactly these rows, by that actor, and nothing else
        changed.
        """
        rows = list(Change.objects.since(self.revision))
        assert sorted(map(in_words, rows)) == sorted(expected)
        assert {(row.actor, row.source, row.reason) for row in rows} <= {(actor, source, reason)}
        check_that_the_log_is_the_whole_truth()


@pytest.fixture(scope="module")
def world_of_the_module(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with rolled_back(django_db_blocker):
        yield World(Environment.objects.get(key="production"), tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(world_of_the_module: World, db: None) -> World:
    world_of_the_module.sign_in()
    return world_of_the_module


@pytest.mark.parametrize(("method", "path", "body", "expected"), API)
@pytest.mark.parametrize("caller", ["key", "user"])
def test_api__each_write__leaves_exactly_its_rows(
    world: World, caller: str, method: str, path: str, body: Any, expected: list[str]
) -> None:
    response = getattr(world.callers[caller], method.lower())(
        world.named(path), body, headers={"X-Change-Reason": BECAUSE}
    )
    assert 200 <= response.status_code < 300, response.content
    world.check(expected, actor=f"{caller} ada", source="api", reason=BECAUSE)


@pytest.mark.parametrize(("path", "edits", "expected"), ADMIN)
def test_admin__each_write__leaves_exactly_its_rows(
    world: World, path: str, edits: dict[str, Any], expected: list[str]
) -> None:
    page = world.named(path)
    data = {name: world.named_all(value) for name, value in edits.items()}
    is_form = doors.admin_door(page, data).endswith(("_add", "_change", "_guided"))
    response = world.admin.post(page, filled(world.admin, page, **data) if is_form else data)
    assert response.status_code in (200, 302)
    world.check(expected, actor="user ada", source="admin", reason=world.named(edits.get("reason", "")))


@pytest.mark.parametrize(("command", "arguments", "expected"), COMMANDS)
def test_command__each_write__leaves_exactly_its_rows(
    world: World, command: str, arguments: list[str], expected: list[str]
) -> None:
    call_command(command, *map(world.named, arguments), stdout=StringIO(), stderr=StringIO())
    world.check(expected, actor=f"operator {getpass.getuser()}", source="command", reason="")


# --- nothing is missing -----------------------------------------------------------------------------------------------


def test_tables__name_every_door_that_there_is(world: World) -> None:
    request = world.admin.get("/admin/").wsgi_request
    there_are = {*doors.api_doors(), *doors.admin_doors(request), *doors.command_doors()}
    named = {
        *(doors.api_door(method, path) for method, path, _, _ in API),
        *(doors.admin_door(world.named(path), data) for path, data, _ in ADMIN),
        *(command for command, _, _ in COMMANDS),
    }
    assert there_are == named | NO_DOORS.keys()
    assert not named & NO_DOORS.keys()


def test_admin__pages_of_no_model__are_those_that_write_no_configuration() -> None:
    signing_in = {"login", "logout", "password_change", "password_change_done"}
    looking = {"index", "app_list", "search", "autocomplete", "jsi18n", "view_on_site"}
    assert doors.site_pages() == signing_in | looking


def test_models__each__is_kept_by_the_change_log_or_no_configuration() -> None:
    kept = {model._meta.label for model in DOCUMENTS}
    assert {model._meta.label for model in apps.get_models()} == kept | NO_CONFIGURATION.keys()
    assert not kept & NO_CONFIGURATION.keys()
