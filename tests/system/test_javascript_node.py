"""Halyard's provider for Node.js, from its package: it asks the service or evaluates flags itself, and reports."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flags.clients import npm
from tests.system.javascript.experiments import events, results, start_experiment
from tests.system.javascript.packages import Application, application, install
from tests.system.openfeature.flags import ADA, BOB, CASES, Case, serving_flags
from tests.system.openfeature.node import node
from tests.system.openfeature.snippets import experiment, run_commands
from tests.system.server import Keys, Server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.once]

MODES = ("remote", "local")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    with serving_flags(tmp_path_factory.mktemp("server"), demo, ANONYMOUS_SCOPE="manage") as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("application"))


@pytest.fixture(scope="module", params=MODES)
def running(request: pytest.FixtureRequest, folder: Path, server: Server) -> Iterator[Application]:
    """An application in each mode, shared by all cases."""
    client_key = server.keys["production"]["client"]
    with application(folder, server, mode=request.param, clientKey=client_key) as started:
        yield started


@pytest.fixture
def local(folder: Path, server: Server) -> Iterator[Application]:
    with application(folder, server, mode="local") as started:
        yield started


@pytest.mark.parametrize("case", CASES, ids=str)
def test_provider__in_each_mode__gets_value_variant_reason_or_error(running: Application, case: Case) -> None:
    details = running.ask(case.flag, case.default, case.context)
    assert details["value"] == case.value
    assert details["reason"] == case.reason
    assert (details.get("variant"), details.get("errorCode")) == (case.variant, case.error)
    metadata = {name: details["flagMetadata"][name] for name in ("rule", "ruleName") if name in details["flagMetadata"]}
    assert metadata == case.metadata


@pytest.mark.parametrize("context", ["cycle", "bigint", "badDate", {"targetingKey": 5}, {"targetingKey": "x" * 201}])
def test_context__that_cannot_be_sent__is_refused_with_a_reason(running: Application, context: Any) -> None:
    details = running.ask("plain", False, context)
    assert (details["value"], details["errorCode"]) == (False, "INVALID_CONTEXT")
    assert details["errorMessage"]


GERMAN = {"attribute": "country", "operator": "equals", "value": "DE"}
PAYING = {"attribute": "company.plan", "operator": "equals", "value": "pro"}
FOR_GERMANS = {"type": "attribute", "conditions": [GERMAN]}
AGREED: list[dict[str, Any]] = [
    {"key": "for-nobody", "rules": [{"type": "percentage", "percentage": 0}]},
    {"key": "whole", "rules": [{**FOR_GERMANS, "percentage": 100}]},
    {"key": "within-object", "rules": [{"type": "attribute", "conditions": [PAYING]}]},
    {
        "key": "ranges",
        "rules": [{"type": "percentage", "percentage": 80, "ranges": [{"salt": "s", "from": 25, "to": 75}]}],
    },
    {"key": "off-for-half", "rules": [{"type": "percentage", "percentage": 50, "serves": False}, FOR_GERMANS]},
]
USERS = [
    {"targetingKey": f"user-{at}", "country": "DE" if at % 2 else "FR", "company": {"plan": "pro" if at % 3 else 7}}
    for at in range(30)
]
CONTEXTS = [ADA, BOB, {"country": "DE"}, {"company": {"plan": "pro"}}, *USERS]


def nested(levels: int) -> dict[str, Any]:
    context: dict[str, Any] = {}
    for _ in range(levels - 2):
        context = {"a": context}
    return {"targetingKey": "ada", "a": context}


def test_context__with_eight_levels__is_taken_and_with_nine_refused(running: Application) -> None:
    assert running.ask("plain", False, nested(8))["value"] is True
    assert running.ask("plain", False, nested(9))["errorCode"] == "INVALID_CONTEXT"


@pytest.mark.parametrize("flag", ["no/such", "no such", "ä", "a?b", "constructor"])
def test_provider__name_that_no_flag_has__is_not_found(running: Application, flag: str) -> None:
    assert running.ask(flag, "mine", ADA)["errorCode"] == "FLAG_NOT_FOUND"


@pytest.mark.parametrize("mode", MODES)
def test_exposure__flag_of_an_experiment_is_used__is_counted_once_with_its_conversion(
    folder: Path, server: Server, mode: str
) -> None:
    key = f"node-{mode}"
    start_experiment(server, key)
    with application(folder, server, mode=mode) as running:
        for _ in range(3):
            details = running.ask(key, "none", ADA)
        about = {name: details["flagMetadata"][name] for name in ("experiment", "experimentVariant", "inExperiment")}
        assert about == {"experiment": key, "experimentVariant": "treatment", "inExperiment": True}
        running.ask(key, "none", BOB)
        running.call("track", event=f"bought-{key}", context=ADA, details={"value": 9.5, "note": "hat"})
        running.call("flush")
        assert results(server, key) == (2, 0.5)
        [bought] = events(server, event=f"bought-{key}")
        assert bought["properties"] == {"value": 9.5, "note": "hat"}
        reported = events(server, experimentId=key, event="experiment_exposure")
        assert [event["userId"] for event in reported] == (["ada", "bob"] if mode == "local" else [])
        assert [event["properties"]["country"] for event in reported] == (["DE", "US"] if mode == "local" else [])


def test_exposure__type_that_the_flag_does_not_have__is_not_counted(local: Application, server: Server) -> None:
    start_experiment(server, "mistaken")
    wait_until(lambda: local.ask("mistaken", False, ADA)["errorCode"] == "TYPE_MISMATCH", "the flag is known", 15)
    local.call("flush")
    assert results(server, "mistaken") == (0, 0)


def test_exposure__experiment_that_the_ruleset_does_not_have__is_dropped_with_one_warning(
    folder: Path, server: Server
) -> None:
    start_experiment(server, "known")
    with application(folder, server, mode="local") as running:
        about = {"inExperiment": True, "experimentVariant": "treatment"}
        for experiment in ("elsewhere", "elsewhere", "known"):
            running.call("expose", context=ADA, about={**about, "experiment": experiment})
        running.call("flush")
        assert running.warnings().count("No experiment has the key elsewhere") == 1
        assert events(server, experimentId="elsewhere") == []
        assert results(server, "known")[0] == 1


def test_track__event_that_is_rejected__is_dropped_with_one_warning_and_blocks_nothing(
    folder: Path, server: Server
) -> None:
    with application(folder, server, mode="remote") as running:
        for bad in ({"revenue": "much"}, {"currency": 5}):
            running.call("track", event="spoiled", context=ADA, details=bad)
        running.call(
            "track", event="unknown-experiment", context=ADA, details={"experimentId": "nobody", "variant": "x"}
        )
        running.call("track", event="anonymous", context={}, details={})
        running.call("track", event="", context=ADA, details={})
        running.call("flush")
        assert len(events(server, event="unknown-experiment")) == 1
        assert running.warnings().count("rejected") == 1
        assert running.warnings().count("anonymous") == 1
        running.call("track", event="afterwards", context=ADA, details={})
        running.call("close")
        assert len(events(server, event="afterwards")) == 1


def test_application__ends_without_closing__sends_its_events_and_does_not_hang(folder: Path, server: Server) -> None:
    with application(folder, server, mode="local") as running:
        running.call("track", event="last-words", context=ADA, details={})
        assert running.end() == 0
    assert len(events(server, event="last-words")) == 1


def test_local__set_again_after_its_end__evaluates_and_sends(local: Application, server: Server) -> None:
    local.call("reopen")
    assert local.ask("colour", "none", ADA)["value"] == "#08f"
    local.call("track", event="second-life", context=ADA, details={})
    assert local.end() == 0
    assert len(events(server, event="second-life")) == 1


def test_local__toggle__arrives_by_itself(local: Application, server: Server) -> None:
    server.ask("POST", "/v1/flags", json={"key": "toggled-for-node", "enabled": True})
    wait_until(lambda: local.ask("toggled-for-node", False, ADA)["value"], "the flag arrives", 15)
    server.ask("PATCH", "/v1/flags/toggled-for-node", json={"enabled": False})
    wait_until(lambda: not local.ask("toggled-for-node", True, ADA)["value"], "the toggle arrives", 15)
    assert "PROVIDER_CONFIGURATION_CHANGED" in local.call("events")


def test_local__service_is_away__starts_with_the_file_and_recovers(folder: Path, server: Server) -> None:
    file = folder / "ruleset.json"
    options = {"mode": "local", "file": str(file)}
    with application(folder, server, **options) as running:
        assert running.ask("colour", "none", ADA)["value"] == "#08f"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.glob("ruleset.json*")] == ["ruleset.json"]
    server.kill()
    try:
        with application(folder, server, **options) as running:
            assert running.ask("colour", "none", ADA)["value"] == "#08f"
            assert running.call("status") == "STALE"
            running.call("track", event="while-away", context=ADA, details={})
            server.start()
            wait_until(lambda: running.call("status") == "READY", "the provider recovers", 90)
            running.call("close")
            assert len(events(server, event="while-away")) == 1
    finally:
        server.answers() or server.start()


def test_local__key_of_scope_client__is_fatal(folder: Path, server: Server) -> None:
    with application(folder, server, scope="client", mode="local") as running:
        assert running.call("status") == "FATAL"
        assert running.ask("plain", False, ADA)["errorCode"] == "PROVIDER_FATAL"


def test_bootstrap__in_each_mode__has_the_values_of_all_flags_and_no_rules(
    running: Application, server: Server
) -> None:
    hidden = {"key": f"hidden-{id(running)}", "enabled": True, "clientVisible": False}
    assert server.ask("POST", "/v1/flags", json=hidden).status_code == 201
    wait_until(lambda: running.ask(hidden["key"], False, ADA)["value"] is True, "the flag is known", 15)
    given = running.call("bootstrap", context=ADA)
    assert hidden["key"] not in {flag["key"] for flag in given["flags"]}
    assert (given["targetingKey"], given["metadata"]["flagSetId"]) == ("ada", "production")
    by_key = {flag["key"]: flag for flag in given["flags"]}
    assert by_key["colour"]["value"] == "#08f"
    assert all(not {"rule", "ruleName"} & flag.get("metadata", {}).keys() for flag in given["flags"])
    assert given.keys() == {"targetingKey", "flags", "metadata"}


def test_modes__all_flags__agree(folder: Path, server: Server) -> None:
    """Whatever the service answers for all flags, the ruleset gives as well."""
    for flag in AGREED:
        assert server.ask("POST", "/v1/flags", json={"enabled": True, **flag}).status_code == 201
    start_experiment(server, "partial", percentage=50, conditions=[GERMAN])
    given = []
    for mode in MODES:
        with application(folder, server, mode=mode, clientKey=server.keys["production"]["client"]) as running:
            given.append([running.call("bootstrap", context=context) for context in CONTEXTS])
    remote, local = ([_comparable(bootstrap) for bootstrap in mode] for mode in given)
    assert local == remote


def _comparable(bootstrap: dict[str, Any]) -> dict[str, Any]:
    """Without what may differ: the words of errors, and the revision that stands once for all flags."""
    flags = {}
    for flag in bootstrap["flags"]:
        metadata = {name: value for name, value in flag["metadata"].items() if name != "revision"}
        flags[flag["key"]] = {**flag, "errorDetails": None, "metadata": metadata}
    return flags


def test_packages__installed_by_npm__can_be_imported(folder: Path, tmp_path: Path) -> None:
    files = []
    for name, content in npm.tarballs():
        (tmp_path / name).write_bytes(content)
        files.append(str(tmp_path / name))
    (tmp_path / "package.json").write_text("{}")
    options = ["--legacy-peer-deps", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        ["npm", "install", *options, *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "node_modules" / "@openfeature").symlink_to(folder / "node_modules" / "@openfeature")
    code = """
      import { HalyardProvider } from "@halyard/server";
      import { evaluate } from "@halyard/server/evaluator";
      import { HalyardWebProvider } from "@halyard/web";
      import { createClient } from "@halyard/web/client";
      console.log([HalyardProvider, evaluate, HalyardWebProvider, createClient].map((each) => typeof each).join());
    """
    command = [node(), "--input-type=module", "--eval", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("function,function,function,function\n", "")


def test_parts__tested_by_node__pass() -> None:
    command = [node(), "--test", *map(str, (Path(__file__).parent / "javascript").glob("*.test.mjs"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_guide__experiment_in_node__is_counted_as_the_page_says(folder: Path, server: Server) -> None:
    page = experiment("node", server)
    run_commands(page.create)
    command = [node(), "--input-type=module", "--eval", page.example.code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, page.example.printed), done.stderr
    assert run_commands(page.read) == page.results
