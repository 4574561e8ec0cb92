"""OpenFeature's own client for Node.js gets every type, reason and error as it expects them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.system.openfeature.flags import ADA, CASES, Case, serving_flags
from tests.system.openfeature.node import FOLDER, NodeClient, node, node_client
from tests.system.openfeature.snippets import snippet
from tests.system.server import Keys, Server

pytestmark = [pytest.mark.system, pytest.mark.once]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    with serving_flags(tmp_path_factory.mktemp("server"), demo) as running:
        yield running


def authorization(server: Server, scope: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.keys['production'][scope]}"}


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[NodeClient]:
    """One with a server key, shared by all tests."""
    with node_client(server, authorization(server, "server")) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=str)
def test_client__with_a_server_key__gets_value_variant_reason_or_error(client: NodeClient, case: Case) -> None:
    details = client.ask(case.flag, case.default, case.context)
    assert details["value"] == case.value
    assert details["reason"] == case.reason
    assert (details.get("variant"), details.get("errorCode")) == (case.variant, case.error)
    metadata = {name: details["flagMetadata"][name] for name in ("rule", "ruleName") if name in details["flagMetadata"]}
    assert metadata == case.metadata


def test_client__with_a_client_key__learns_nothing_of_rules(client: NodeClient, server: Server) -> None:
    with node_client(server, authorization(server, "client")) as other:
        details = other.ask("germany", False, ADA)
    assert (details["value"], details["reason"]) == (True, "TARGETING_MATCH")
    assert details["flagMetadata"].keys() == {"revision", "version", "flagSetId", "reason"}


def test_client__key_in_the_other_header__is_known_too(client: NodeClient, server: Server) -> None:
    headers = {"X-API-Key": server.keys["staging"]["client"]}
    with node_client(server, headers) as other:
        assert other.ask("plain", True, ADA)["reason"] == "DISABLED"


def test_client__toggle_that_was_answered__is_seen_by_the_next_question(client: NodeClient, server: Server) -> None:
    server.ask("POST", "/v1/flags", json={"key": "toggled-for-node", "enabled": True})
    for enabled in (False, True) * 20:
        server.ask("PATCH", "/v1/flags/toggled-for-node", json={"enabled": enabled})
        assert client.ask("toggled-for-node", not enabled, ADA)["value"] is enabled


def test_client__unknown_key__gets_the_default_and_an_error(client: NodeClient, server: Server) -> None:
    with node_client(server, {"Authorization": "Bearer hyd_c_nobody"}) as other:
        details = other.ask("plain", False, ADA)
    assert (details["value"], details["reason"], details["errorCode"]) == (False, "ERROR", "GENERAL")


@pytest.mark.parametrize("context", [{"targetingKey": ""}, {"targetingKey": "ada", "nul": "\0"}, {"targetingKey": 5}])
def test_client__context_that_is_refused__gets_the_reason(client: NodeClient, context: dict[str, Any]) -> None:
    details = client.ask("half", True, context)
    expected = "TARGETING_KEY_MISSING" if context["targetingKey"] == "" else "INVALID_CONTEXT"
    assert (details["value"], details["errorCode"]) == (True, expected)
    assert details["errorMessage"]


@pytest.mark.parametrize("flag", ["no/such", "no such", "ä", "a?b"])
def test_client__name_that_no_flag_can_have__is_not_found(client: NodeClient, flag: str) -> None:
    """This client puts it into the path as it is."""
    details = client.ask(flag, "mine", ADA)
    assert (details["value"], details["errorCode"]) == ("mine", "FLAG_NOT_FOUND")


def test_guide__example_in_javascript__prints_what_it_says(server: Server) -> None:
    example = snippet("node", server)
    command = [node(), "--input-type=module", "--eval", example.code]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, example.printed), done.stderr
