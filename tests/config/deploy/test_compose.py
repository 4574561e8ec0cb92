"""The services of compose.yaml run commands that exist, in order, without rights, and with settings that are read."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import pytest
import yaml

from config.serving import supervisor
from tests.operations import commands_in, parse_command, setting_names
from tests.system.server import ROOT

FILE = ROOT / "config/deploy/compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OWN = {name: service for name, service in SERVICES.items() if service["image"] == "halyard"}
pytestmark = pytest.mark.once


def test_services__all_that_is_needed__are_there() -> None:
    assert SERVICES.keys() == {"database", "migrate", "serve", "maintain"}
    assert OWN.keys() == {"migrate", "serve", "maintain"}


def test_commands__of_the_service__exist_with_their_options() -> None:
    parse_command(OWN["migrate"]["command"])
    parse_command(OWN["serve"]["command"])
    *shell, script = OWN["maintain"]["entrypoint"]
    assert shell == ["tini", "--", "sh", "-c"]
    assert list(commands_in(script)) == [["maintain"]]
    parse_command(["maintain"])


def test_image__of_the_service__is_built_from_the_dockerfile() -> None:
    [build] = [service["build"] for service in OWN.values() if "build" in service]
    context = (FILE.parent / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).samefile(FILE.with_name("Dockerfile"))


@pytest.mark.parametrize("name", OWN)
def test_container__of_the_service__has_no_rights_and_writes_only_what_it_may(name: str) -> None:
    service = OWN[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    written = {str(place).partition(":")[0] for place in service["tmpfs"]}
    written |= {place.rpartition(":")[2] for place in service.get("volumes", ())}
    assert written == {"/tmp", "/var/lib/halyard"}


@pytest.mark.parametrize("name", OWN)
def test_environment__of_the_service__has_settings_alone(name: str) -> None:
    assert OWN[name]["environment"].keys() <= setting_names()


def test_variables__all_that_must_be_given__are_named_at_the_top() -> None:
    head = FILE.read_text().partition("\nname:")[0]
    named = set(re.findall(r"\$\{([A-Z_]+)", FILE.read_text()))
    assert named == set(re.findall(r"\b([A-Z]+_[A-Z_]+)\b", head))
    assert named - {"POSTGRES_PASSWORD"} <= setting_names()


def test_order__of_the_services__is_database_then_migrations_then_the_others() -> None:
    assert OWN["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    for name in ("serve", "maintain"):
        assert OWN[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_ports__published__are_those_of_the_command_for_this_host_alone() -> None:
    words = OWN["serve"]["command"]
    ports = [words[words.index(option) + 1] for option in ("--port", "--stream-port")]
    assert OWN["serve"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]


def test_proxies__that_are_trusted__include_the_gateway() -> None:
    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert ipaddress.ip_address(network["gateway"]) in ipaddress.ip_network(network["subnet"])
    assert network["gateway"] in OWN["serve"]["environment"]["TRUSTED_PROXIES"].split(",")


def test_stop__of_the_server__has_time_for_requests_under_way() -> None:
    assert int(OWN["serve"]["stop_grace_period"].removesuffix("s")) > supervisor._PATIENCE_SECONDS


def test_connections__of_the_server__are_fewer_than_the_database_allows() -> None:
    words = SERVICES["database"]["command"]
    [allowed] = [int(word.partition("=")[2]) for word in words if word.startswith("max_connections=")]
    workers = int(OWN["serve"]["command"][-1])
    assert workers * (8 + 7) < allowed
