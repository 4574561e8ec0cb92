"""OpenFeature's own client for Python gets every type, reason and error as it expects them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from halyard_openfeature import HalyardProvider
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagEvaluationDetails

from flags.clients.wheel import SOURCES as CLIENT
from tests.guide.markdown import code_blocks, read_page
from tests.guide.transcripts import ADDRESS
from tests.system.openfeature.flags import ADA, CASES, NOBODY, Case, serving_flags
from tests.system.openfeature.snippets import snippet
from tests.system.server import ROOT, Keys, Server

pytestmark = [pytest.mark.system, pytest.mark.once]

METHODS = {bool: "boolean", str: "string", int: "integer", float: "float", dict: "object"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    with serving_flags(tmp_path_factory.mktemp("server"), demo) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_provider_left() -> Iterator[None]:
    yield
    api.shutdown()
    api.clear_providers()


def client_of(server: Server, key: str) -> OpenFeatureClient:
    headers = {"Authorization": f"Bearer {key}"}
    api.set_provider(OFREPProvider(server.url, headers_factory=lambda: headers))
    return api.get_client()


def ask(client: OpenFeatureClient, flag: str, default: Any, context: dict[str, Any]) -> FlagEvaluationDetails[Any]:
    """The details that the method for the type of the default returns."""
    attributes = {name: value for name, value in context.items() if name != "targetingKey"}
    method = getattr(client, f"get_{METHODS[type(default)]}_details")
    return method(flag, default, EvaluationContext(context.get("targetingKey"), attributes))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_client__with_a_server_key__gets_value_variant_reason_or_error(server: Server, case: Case) -> None:
    details = ask(client_of(server, server.keys["production"]["server"]), case.flag, case.default, case.context)
    assert (details.value, type(details.value)) == (case.value, type(case.value))
    assert (details.variant, details.reason, details.error_code) == (case.variant, case.reason, case.error)
    if case.error is None:
        metadata = {name: details.flag_metadata[name] for name in ("rule", "ruleName") if name in details.flag_metadata}
        assert metadata == case.metadata


@pytest.mark.parametrize("mode", ["remote", "local"])
def test_own_provider__in_each_mode__answers_as_the_service_does(server: Server, mode: Any) -> None:
    provider = HalyardProvider(server.url, server.keys["production"]["server"], mode=mode, exposures=False)
    api.set_provider_and_wait(provider)
    client, wrong = api.get_client(), []
    for case in CASES:
        details = ask(client, case.flag, case.default, case.context)
        answer = (details.value, type(details.value), details.variant, details.reason, details.error_code)
        metadata = {name: details.flag_metadata[name] for name in ("rule", "ruleName") if name in details.flag_metadata}
        expected = (case.value, type(case.value), case.variant, case.reason, case.error)
        if answer != expected or (case.error is None and metadata != case.metadata):
            wrong.append((case, details))
    assert wrong == []


def test_client__with_a_client_key__learns_nothing_of_rules(server: Server) -> None:
    details = ask(client_of(server, server.keys["production"]["client"]), "germany", False, ADA)
    assert (details.value, details.reason) == (True, "TARGETING_MATCH")
    assert details.flag_metadata["flagSetId"] == "production"
    assert details.flag_metadata.keys() == {"revision", "version", "flagSetId", "reason"}


def test_client__toggle_that_was_answered__is_seen_by_the_next_question(server: Server) -> None:
    client = client_of(server, server.keys["production"]["server"])
    server.ask("POST", "/v1/flags", json={"key": "toggled-for-python", "enabled": True})
    for enabled in (False, True) * 20:
        server.ask("PATCH", "/v1/flags/toggled-for-python", json={"enabled": enabled})
        assert ask(client, "toggled-for-python", not enabled, ADA).value is enabled


def test_client__without_any_context__is_answered_where_no_user_is_needed(server: Server) -> None:
    client = client_of(server, server.keys["production"]["server"])
    assert client.get_string_details("dull-colour", "none").reason == "DISABLED"
    assert client.get_boolean_details("half", True).error_code == "TARGETING_KEY_MISSING"


def test_client__whole_number_of_a_flag_with_fractions__is_no_integer(server: Server) -> None:
    client = client_of(server, server.keys["production"]["server"])
    assert ask(client, "price", 1, ADA).error_code == "TYPE_MISMATCH"
    assert ask(client, "limit", 1.5, ADA).error_code == "TYPE_MISMATCH"


@pytest.mark.parametrize("key", ["", "hyd_c_nobody-has-this-key"])
def test_client__unknown_key__gets_the_default_and_the_reason(server: Server, key: str) -> None:
    details = ask(client_of(server, key), "plain", False, ADA)
    assert (details.value, details.error_code, details.error_message) == (False, "GENERAL", "unauthorized")


@pytest.mark.parametrize("attributes", [{"nan": float("nan")}, {"nul": "\0"}, {"lone": "\ud800"}])
def test_client__context_that_no_json_can_hold__gets_the_reason(server: Server, attributes: dict[str, Any]) -> None:
    details = ask(client_of(server, server.keys["production"]["client"]), "plain", False, {**ADA, **attributes})
    assert details.value is False
    assert details.error_code in ("INVALID_CONTEXT", "PARSE_ERROR", "GENERAL")


@pytest.mark.parametrize("flag", ["no/such", "no such", "ä", "a?b", "a#b", ".", ""])
def test_client__name_that_no_flag_can_have__is_not_found(server: Server, flag: str) -> None:
    """This client puts it into the path as it is."""
    details = ask(client_of(server, server.keys["production"]["client"]), flag, "mine", NOBODY)
    assert (details.value, details.error_code) == ("mine", "FLAG_NOT_FOUND")


def test_guide__example_in_python__prints_what_it_says(server: Server) -> None:
    example = snippet("python", server)
    done = subprocess.run([sys.executable, "-c", example.code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, example.printed), done.stderr


def test_guide__example_of_the_own_provider__prints_what_it_says(server: Server) -> None:
    blocks = code_blocks(read_page("openfeature/python.md"))
    code, printed = next((code, after) for (_, code), (form, after) in pairwise(blocks) if form == "text")
    code = code.replace("hyd_s_...", server.keys["production"]["server"]).replace(ADDRESS, server.url)
    environment = {**os.environ, "PYTHONPATH": str(CLIENT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert "HalyardProvider" in code
