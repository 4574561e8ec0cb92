"""Every write through every door leaves exactly its rows in the change log, and nothing was written that it misses.

A door that the tables below do not know fails `test_tables__name_every_door_that_there_is`.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import Model
from django.utils import timezone

from config.keys import api_keys, environments
from config.keys.environments import create_environment
from config.models import ApiKey, Change, Environment
from experiments.lifecycle import changes as lifecycle
from experiments.metrics import changes as metrics
from experiments.metrics.changes import create_metric
from experiments.models import Experiment, Metric
from flags.changes import flag_changes, segment_changes
from flags.changes.flag_changes import archive_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.models import Flag, Segment
from tests.admin import filled, sign_in
from tests.config.change_log import doors
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory

BECAUSE = "because it is time"
FIRST_REVISION = 3
"""Of the flag `standing`, right after the two environments of a new database."""

FILE = """
version: 1
segments:
  - key: filed
flags:
  - key: filed
    environments:
      production:
        enabled: true
        rules:
          - type: segment
            segment: filed
  - key: "on"
    environments:
      production:
        enabled: false
      staging:
        enabled: true
"""

HISTORY = {
    "events": "event,userId,timestamp\nbuy,u,2026-02-01\n",
    "exposures": "userId,variant,exposedAt\nu,green,2026-02-01\n",
}

TWO = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
ASKING = [{"operator": "inSegment", "value": "audience"}]
DRIVEN = {"key": "driven", "serves": {"control": False, "green": True}}

# Method, address, body, and what the change log then tells. Whoever is asked a question, or told of an event, writes
# no configuration; nor does who sends what is so already.
API: list[tuple[str, str, Any, list[str]]] = [
    ("POST", "/v1/flags", {"key": "new", "enabled": True}, ["created flag new"]),
    ("PATCH", "/v1/flags/standing", {"enabled": True}, ["changed flag standing in production"]),
    ("PATCH", "/v1/flags/standing", {"rules": []}, []),
    ("PATCH", "/v1/flags/standing", {"enabled": True, "tags": ["new"]}, ["changed flag standing"]),
    ("DELETE", "/v1/flags/standing", None, ["deleted flag standing"]),
    ("POST", "/v1/flags/standing/revert", {"revision": FIRST_REVISION}, ["changed flag standing"]),
    ("POST", "/v1/flags/standing/archive", None, ["changed flag standing"]),
    ("POST", "/v1/flags/archived/archive", None, []),
    ("POST", "/v1/flags/archived/restore", None, ["changed flag archived"]),
    ("POST", "/v1/flags/standing/restore", None, []),
    ("POST", "/v1/promote", {"from": "staging", "flags": ["on", "standing"]}, ["changed flag on in production"]),
    ("POST", "/v1/promote", {"from": "staging", "dryRun": True}, []),
    ("POST", "/v1/flags/standing/evaluate", {"userId": "u"}, []),
    ("POST", "/v1/flags/standing/explain", {"userId": "u"}, []),
    ("POST", "/v1/evaluate", {"userId": "u"}, []),
    ("POST", "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u"}}, []),
    ("POST", "/ofrep/v1/evaluate/flags/standing", {"context": {"targetingKey": "u"}}, []),
    ("POST", "/v1/segments", {"key": "new", "userIds": ["u"]}, ["created segment new"]),
    ("PATCH", "/v1/segments/crowd", {"userIds": ["u"]}, ["changed segment crowd"]),
    ("PATCH", "/v1/segments/crowd", {"userIds": []}, []),
    (
        "PATCH",
        "/v1/segments/audience",
        {"userIds": ["u"]},
        ["changed segment audience", "changed experiment targeting in production"],
    ),
    ("PATCH", "/v1/segments/audience", {"description": "Other"}, ["changed segment audience"]),
    ("DELETE", "/v1/segments/crowd", None, ["deleted segment crowd"]),
    ("POST", "/v1/metrics", {"key": "new", "type": "count", "event": "view"}, ["created metric new"]),
    ("PATCH", "/v1/metrics/measured", {"windowHours": 24}, ["changed metric measured"]),
    ("PATCH", "/v1/metrics/measured", {"type": "count"}, []),
    ("DELETE", "/v1/metrics/unused", None, ["deleted metric unused"]),
    ("POST", "/v1/experiments", {"key": "new", "variants": TWO}, ["created experiment new in production"]),
    ("PATCH", "/v1/experiments/draft", {"variants": TWO}, ["changed experiment draft in production"]),
    ("DELETE", "/v1/experiments/draft", None, ["deleted experiment draft in production"]),
    ("POST", "/v1/experiments/draft/start", None, ["changed experiment draft in production"]),
    ("POST", "/v1/experiments/running/stop", None, ["changed experiment running in production"]),
    (
        "POST",
        "/v1/experiments/driving/stop",
        {"winner": "green", "reason": BECAUSE},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    (
        "POST",
        "/v1/experiments/running/phases",
        {"percentage": 50, "reason": BECAUSE},
        ["changed experiment running in production"],
    ),
    (
        "POST",
        "/v1/experiments/driving/phases",
        {"percentage": 50, "reason": BECAUSE},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    ("POST", "/v1/experiments/stopped/reopen", None, ["changed experiment stopped in production"]),
    ("POST", "/v1/experiments/running/variant", {"userId": "u"}, []),
    ("POST", "/v1/variants", {"userId": "u", "record": True}, []),
    ("POST", "/v1/events", {"event": "buy", "userId": "u"}, []),
    ("POST", "/v1/events/batch", {"events": [{"event": "buy", "userId": "u"}]}, []),
    ("DELETE", "/v1/users/u", None, []),
]

# Page, what is typed or pressed, and what the change log then tells. A name in braces stands for the object's id.
HERE = {"opened_in": "production"}
YES = {"reason": BECAUSE, **HERE}
ADMIN: list[tuple[str, dict[str, Any], list[str]]] = [
    ("/admin/flags/flag/add/", {"key": "new", "reason": BECAUSE}, ["created flag new"]),
    ("/admin/flags/flag/{standing}/change/", {"description": "Other", "reason": BECAUSE}, ["changed flag standing"]),
    ("/admin/flags/flag/{standing}/change/", {"reason": BECAUSE}, []),
    ("/admin/flags/flag/{standing}/delete/", YES, ["deleted flag standing"]),
    ("/admin/flags/flag/{standing}/toggle/", {"switch": "production:on"}, ["changed flag standing in production"]),
    ("/admin/flags/flag/{standing}/toggle/", {"switch": "production:off"}, []),
    (f"/admin/flags/flag/{{standing}}/revert/{FIRST_REVISION}/", YES, ["changed flag standing"]),
    ("/admin/flags/flag/{standing}/archive/", YES, ["changed flag standing"]),
    ("/admin/flags/flag/{archived}/restore/", YES, ["changed flag archived"]),
    ("/admin/flags/flag/{on}/promote/", {"from": "staging"}, []),
    ("/admin/flags/flag/promote/", {"flags": "on,other", "from": "staging"}, []),
    ("/admin/flags/flag/", {"action": "production:promote", "_selected_action": ["{on}"]}, []),
    ("/admin/flags/flag/{standing}/try_it/", {"user_id": "u", "attributes": "{}", **HERE}, []),
    (
        "/admin/flags/flag/",
        {"action": "production:on", "_selected_action": ["{on}", "{other}", "{standing}"]},
        ["changed flag other in production", "changed flag standing in production"],
    ),
    (
        "/admin/flags/flag/",
        {"action": "production:off", "_selected_action": ["{on}", "{other}"]},
        ["changed flag on in production"],
    ),
    ("/admin/flags/segment/add/", {"key": "new", "reason": BECAUSE}, ["created segment new"]),
    ("/admin/flags/segment/{crowd}/change/", {"description": "Other", "reason": BECAUSE}, ["changed segment crowd"]),
    ("/admin/flags/segment/{crowd}/delete/", YES, ["deleted segment crowd"]),
    (
        "/admin/experiments/metric/add/",
        {"key": "new", "type": "count", "event": "view", "reason": BECAUSE},
        ["created metric new"],
    ),
    (
        "/admin/experiments/metric/{measured}/change/",
        {"event": "seen", "new_version": "on", "reason": BECAUSE},
        ["changed metric measured"],
    ),
    ("/admin/experiments/metric/{measured}/change/", {"event": "seen", "reason": BECAUSE}, []),  # it asks first
    ("/admin/experiments/metric/{unused}/delete/", YES, ["deleted metric unused"]),
    ("/admin/experiments/experiment/add/", {"key": "new", **YES}, ["created experiment new in production"]),
    (
        "/admin/experiments/experiment/{draft}/change/",
        {"description": "Other", **YES},
        ["changed experiment draft in production"],
    ),
    ("/admin/experiments/experiment/{draft}/delete/", YES, ["deleted experiment draft in production"]),
    ("/admin/experiments/experiment/{draft}/start/", YES, ["changed experiment draft in production"]),
    ("/admin/experiments/experiment/{running}/stop/", YES, ["changed experiment running in production"]),
    (
        "/admin/experiments/experiment/{driving}/ship/",
        {"winner": "green", **YES},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    (
        "/admin/experiments/experiment/{driving}/new_phase/",
        {"weight_0": "50", "weight_1": "50", "percentage": "20", "conditions": "[]", **YES},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    ("/admin/experiments/experiment/{stopped}/reopen/", YES, ["changed experiment stopped in production"]),
    ("/admin/config/environment/add/", {"key": "new", "name": "New", "reason": BECAUSE}, ["created environment new"]),
    (
        "/admin/config/environment/{trial}/change/",
        {"is_default": True, "reason": BECAUSE},
        ["changed environment production", "changed environment trial"],
    ),
    ("/admin/config/environment/switch/", {"environment": "staging"}, []),  # in this session
    ("/admin/config/apikey/add/", {"name": "new", "reason": BECAUSE}, ["created api_key new in production"]),
    ("/admin/config/apikey/{spare}/revoke/", YES, ["changed api_key spare in production"]),
]

COMMANDS: list[tuple[str, list[str], list[str]]] = [
    ("create_key", ["--name", "new", "--scope", "client"], ["created api_key new in production"]),
    ("revoke_key", ["{spare}"], ["changed api_key spare in production"]),
    ("list_keys", [], []),
    ("maintain", [], []),
    ("export_events", [], []),
    ("export_flags", [], []),
    ("import_flags", ["{file}"], ["created flag filed", "changed flag on", "created segment filed"]),
    ("import_flags", ["{file}", "--dry-run"], []),
    (
        "import_flags",
        ["{file}", "--environment", "staging"],
        ["created flag filed", "changed flag on in staging", "created segment filed"],
    ),
    (
        "promote",
        ["--from", "staging", "--to", "production"],
        ["changed flag driven in production", "changed flag on in production"],
    ),
    ("promote", ["--from", "production", "--to", "staging", "on", "--dry-run"], []),
    ("stale_flags", [], []),
    ("erase_user", ["u", "--no-input"], []),
    ("purge_events", ["--before", "2026-01-31"], []),
    ("import_events", ["{events}"], []),
    ("import_exposures", ["running", "{exposures}"], []),
    ("start_experiment", ["draft", "--at", "2026-01-31"], ["changed experiment draft in production"]),
    ("stop_experiment", ["running", "--at", "2026-02-01"], ["changed experiment running in production"]),
    ("setup", [], []),  # of a database that holds something
]

NO_DOORS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("auth_user_add", "auth_user_change", "auth_user_delete", "auth_user_password_change"),
            *("auth_group_add", "auth_group_change", "auth_group_delete"),
            *("auth_user_changelist delete_selected", "auth_group_changelist delete_selected"),
        ),
        "people, and what they may do here: nothing that the service answers to its clients depends on them",
    ),
    **dict.fromkeys(
        (
            *("experiments_experiment_results", "experiments_experiment_results_csv"),
            *("experiments_experiment_results_json", "experiments_experiment_explanation"),
            *("experiments_experiment_planner", "simulate_aa", "check_results", "audit_assignments"),
        ),
        "only looks: at what came of experiments, and what may come of them",
    ),
    "demo": "fills an empty database: test_demo__into_an_empty_database__leaves_a_row_for_each_write",
    "serve": "does nothing but serve the other doors",
}

DOCUMENTS: Mapping[type[Model], tuple[str, Callable[[Any], Any]]] = {
    Environment: (environments.KIND, environments.document),
    ApiKey: (api_keys.KIND, api_keys.document),
    Flag: (flag_changes.KIND, flag_changes.document),
    Segment: (segment_changes.KIND, segment_changes.document),
    Metric: (metrics.KIND, metrics.document),
    Experiment: (lifecycle.KIND, lifecycle.document),
}
"""What configuration is, and how the change log keeps it."""

NO_CONFIGURATION: Mapping[str, str] = {
    "flags.FlagState": "part of a flag's document",
    "flags.FlagTag": "part of a flag's document",
    "flags.Usage": "what happened, not what is to happen",
    "flags.LastUse": "what happened, not what is to happen",
    "config.Change": "the change log itself",
    "config.IdempotencyKey": "what happened, not what is to happen",
    "events.Event": "what happened, not what is to happen",
    "events.EventCount": "what happened, not what is to happen",
    "config.Epoch": "part of the order in which things arrive",
    "experiments.Exposure": "what happened, not what is to happen",
    "experiments.Fold": "worked out from what happened",
    "experiments.UserTotal": "worked out from what happened",
    "experiments.Calibration": "worked out from what happened",
    "experiments.VariantSums": "worked out from what happened",
    "auth.User": "people, and what they may do here",
    "auth.Group": "people, and what they may do here",
    "auth.Permission": "people, and what they may do here",
    "sessions.Session": "who is signed in",
    "admin.LogEntry": "Django's own log, which is not kept",
    "contenttypes.ContentType": "a list of the models",
}


class World:
    """One object for each thing that can be done, and who does it."""

    def __init__(self, production: Environment, folder: Path) -> None:
        which = {"environment": production, "actor": ACTOR, "at": NOON}
        standing = FlagFactory(key="standing", tags=["first"])
        update_flag(key="standing", changes={"tags": ["second"]}, **which)
        FlagFactory(key="archived")
        archive_flag(key="archived", **which)
        spare, _ = KeyFactory(name="spare")
        objects = {
            "standing": standing,
            "archived": Flag.objects.get(key="archived"),
            "on": FlagFactory(key="on", on=True),
            "other": FlagFactory(key="other"),
            "crowd": create_segment(key="crowd", actor=ACTOR, at=NOON),
            "audience": create_segment(key="audience", actor=ACTOR, at=NOON),
            "targeting": ExperimentFactory(key="targeting", conditions=ASKING, running=True),
            "measured": create_metric(key="measured", type="count", event="view", actor=ACTOR, at=NOON),
            "unused": create_metric(key="unused", type="count", event="view", actor=ACTOR, at=NOON),
            "draft": ExperimentFactory(key="draft"),
            "running": ExperimentFactory(key="running", metrics=["measured"], running=True),
            "driven": FlagFactory(key="driven", on=True),
            "driving": ExperimentFactory(key="driving", flag=DRIVEN, running=True),
            "stopped": ExperimentFactory(key="stopped", running=True, stopped_at=timezone.now()),
            "trial": create_environment(key="trial", name="Trial", actor=ACTOR, at=NOON),
            "spare": spare,
        }
        self.ids = {name: str(each.pk) for name, each in objects.items()} | {"file": str(folder / "flags.yaml")}
        Path(self.ids["file"]).write_text(FILE)
        for name, text in HISTORY.items():
            self.ids[name] = str(folder / f"{name}.csv")
            Path(self.ids[name]).write_text(text)
        self.admin = sign_in(username="ada")
        self.callers = {"key": CommittingClient(), "user": CommittingClient()}
        _, secret = KeyFactory(name="ada")
        self.callers["key"].credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        self.callers["user"].force_login(User.objects.get())
        for caller in self.callers.values():
            caller.default_format = "json"
        self.revision = Change.objects.latest_revision()

    def named(self, text: str) -> str:
        """With ids in place of names in braces."""
        return text.format(**self.ids)

    def named_all(self, value: Any) -> Any:
        return [self.named(each) for each in value] if isinstance(value, list) else value

    def check(self, told: list[str], *, actor: str, source: str, reason: str) -> None:
        """These rows, by that actor, and nothing that they do not tell."""
        rows = list(Change.objects.since(self.revision))
        assert sorted(map(in_words, rows)) == sorted(told)
        assert {(row.actor, row.source, row.reason) for row in rows} <= {(actor, source, reason)}
        check_that_the_log_is_the_whole_truth()


def in_words(change: Change) -> str:
    return f"{change.action} {change.kind} {change.key}" + (f" in {change.environment}" if change.environment else "")


def check_that_the_log_is_the_whole_truth() -> None:
    """Each row starts where the one before ended, and what they come to in the end is what is stored."""
    told: dict[tuple[str, str], Any] = {}
    for row in Change.objects.order_by("revision"):
        assert row.before == told.pop((row.kind, row.object_id), None), row
        assert row.before != row.after
        if row.after is not None:
            told[row.kind, row.object_id] = row.after
    stored = {
        (kind, str(each.pk)): document(each)
        for model, (kind, document) in DOCUMENTS.items()
        for each in model._default_manager.all()
    }
    assert told == stored


@pytest.fixture
def world(production: Environment, tmp_path: Path) -> World:
    return World(production, tmp_path)


@pytest.mark.parametrize(("method", "path", "body", "told"), API)
@pytest.mark.parametrize("caller", ["key", "user"])
def test_api__each_write__leaves_exactly_its_rows(
    world: World, caller: str, method: str, path: str, body: Any, told: list[str]
) -> None:
    response = getattr(world.callers[caller], method.lower())(path, body, headers={"X-Change-Reason": BECAUSE})
    assert 200 <= response.status_code < 300, response.content
    world.check(told, actor=f"{caller} ada", source="api", reason=BECAUSE)


@pytest.mark.parametrize(("path", "edits", "told"), ADMIN)
def test_admin__each_write__leaves_exactly_its_rows(
    world: World, path: str, edits: dict[str, Any], told: list[str]
) -> None:
    page = world.named(path)
    data = {name: world.named_all(value) for name, value in edits.items()}
    is_form = doors.admin_door(page, data).endswith(("_add", "_change"))
    response = world.admin.post(page, filled(world.admin, page, **data) if is_form else data)
    assert response.status_code in (200, 302)
    world.check(told, actor="user ada", source="admin", reason=edits.get("reason", ""))


@pytest.mark.parametrize(("command", "arguments", "told"), COMMANDS)
def test_command__each_write__leaves_exactly_its_rows(
    world: World, command: str, arguments: list[str], told: list[str]
) -> None:
    call_command(command, *map(world.named, arguments), stdout=StringIO(), stderr=StringIO())
    world.check(told, actor=f"operator {getpass.getuser()}", source="command", reason="")


@pytest.mark.django_db
def test_demo__into_an_empty_database__leaves_a_row_for_each_write() -> None:
    call_command("demo", "--users", "10", "--events", "500", stdout=StringIO(), stderr=StringIO())
    rows = Change.objects.since(2)
    assert {(row.actor, row.source, row.reason) for row in rows} == {
        (f"operator {getpass.getuser()}", "command", "Demo data")
    }
    check_that_the_log_is_the_whole_truth()


@pytest.mark.django_db
def test_new_database__has_a_row_for_each_environment() -> None:
    rows = Change.objects.order_by("revision")
    assert list(map(in_words, rows)) == ["created environment production", "created environment staging"]
    assert {(row.actor, row.source, row.reason) for row in rows} == {("migrate", "command", "")}
    check_that_the_log_is_the_whole_truth()


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
