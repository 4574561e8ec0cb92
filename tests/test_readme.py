"""The README is true: its tour answers what it says, and its tables name all there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import find_commands, load_command_class
from django.core.management.base import BaseCommand
from django.urls import URLPattern
from drf_spectacular.generators import SchemaGenerator

from config import maintenance
from config.errors import DetailCode, ErrorCode
from config.models import Scope
from config.urls import urlpatterns
from experiments.stats.types import Decision, ReasonCode
from flags.engine.operators import OPERATORS
from flags.engine.types import Reason, RuleType
from flags.usage.staleness import StaleReason
from tests.system.databases import fresh_database
from tests.system.server import ROOT, Server

README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8000"
PYTHON = ".venv/bin/python"


@dataclass(frozen=True)
class Step:
    """A block of commands and the answer that is printed below it: `http` shows status and some headers besides."""

    commands: str
    form: str
    answer: str


def section(title: str) -> str:
    """The text below a heading, up to the next one of its level."""
    level = title.partition(" ")[0]
    [found] = re.findall(rf"^{re.escape(title)}\n(.*?)(?=^{level} |\Z)", README, re.DOTALL | re.MULTILINE)
    return str(found)


def tour() -> list[Step]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section("## A tour of the API"), re.DOTALL | re.MULTILINE)
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert all(form == "sh" for (form, _), _ in pairs)
    return [Step(commands, form, answer) for (_, commands), (form, answer) in pairs]


def run_tour(server: Server) -> list[str]:
    """Run all commands in one shell, as a reader would, and return what each block printed."""
    script = "\n".join(f"{step.commands}\nprintf '\\0'" for step in tour())
    script = script.replace(ADDRESS, server.url).replace(PYTHON, sys.executable)
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "-euc", script],
        cwd=ROOT,
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.replace(server.url, ADDRESS).split("\0")[:-1]


PARTICULAR = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "<id>",
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z": "<timestamp>",
    r"cursor=[A-Za-z0-9_-]+": "cursor=<cursor>",
    r"(?<=hyd_[csm]_)[A-Za-z0-9_-]+": "<secret>",
    r'(?i:(?<=etag: ))"\w+"': "<version>",
    r"(?<=http://127\.0\.0\.1:)\d+(?=/ofrep/v1/streams/)": "<port>",
    r"(?<=token=)[\w.-]+": "<token>",
    r"(?i:(?<=x-revision: ))\d+": "<revision>",
    r'(?<="revision":) ?\d+': "0",
}
"""What differs from run to run."""


def general(text: str) -> str:
    for pattern, name in PARTICULAR.items():
        text = re.sub(pattern, name, text)
    # Figures are printed to six digits; the last ones that are computed differ between machines.
    return re.sub(r"\d+\.\d{7,}(?:e-?\d+)?", lambda found: f"{float(found[0]):.6g}", text)


def parse_http(text: str) -> tuple[str, dict[str, str], Any]:
    """Status line, headers by lower-case name, and the JSON of the body, if there is one."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.strip().split("\n")
    headers = dict(re.split(r":\s*", line, maxsplit=1) for line in lines)
    return status.strip(), {name.lower(): value.strip() for name, value in headers.items()}, parse_json(body)


def parse_json(text: str) -> Any:
    """JSON with numbers as they are written, so that 1 is not 1.0."""
    return json.loads(text, parse_float=str, parse_int=str) if text.strip() else None


def table(title: str) -> Iterator[list[str]]:
    """The rows of the tables below a heading, without their own headings."""
    lines = section(title).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


@pytest.fixture(scope="module")
def development_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """What `make run` gives: a database that was set up, served with the settings of its `.env`."""
    folder: Path = tmp_path_factory.mktemp("readme")
    with fresh_database(folder) as url:
        server = Server(folder, url, DEBUG="true", ANONYMOUS_SCOPE="manage")
        server.run("manage.py", "setup")
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.mark.system
def test_tour__on_a_development_server__answers_what_is_printed(development_server):
    answers = run_tour(development_server)
    for step, answer in zip(tour(), map(general, answers), strict=True):
        printed = general(step.answer)
        if step.form == "json":
            assert parse_json(answer) == parse_json(printed), step.commands
        elif step.form == "http":
            status, headers, body = parse_http(answer)
            expected_status, expected_headers, expected_body = parse_http(printed)
            assert status == expected_status, step.commands
            assert {name: headers.get(name) for name in expected_headers} == expected_headers, step.commands
            assert body == expected_body, step.commands
        else:
            assert step.form == "text"
            assert answer.split() == printed.split(), step.commands


def test_tour__operations__are_all_in_it():
    called = set()
    for step in tour():
        for call in re.findall(rf"curl .*?{ADDRESS}[^\n]*", step.commands):
            path = re.search(rf"{ADDRESS}(/(?:ofrep/)?v1/[^\s'?]*)", call)[1]
            sent = re.search(r"-X (\w+)", call)
            called.add((sent[1] if sent else "POST" if " -d " in call or " -d " in step.commands else "GET", path))
    for pattern in urlpatterns:
        route = re.sub(r"<\w+:\w+>", "[^/]+", str(pattern.pattern))
        actions = getattr(pattern.callback, "actions", {}) if isinstance(pattern, URLPattern) else {}
        for method in actions.keys() - {"head"}:  # which DRF adds where there is a get
            assert any(sent == method.upper() and re.fullmatch(f"/{route}", path) for sent, path in called), (
                f"{method} {route} is not in the tour"
            )


def test_results__every_property_and_reason__stands_in_the_tables():
    schemas = SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]
    named = set(re.findall(r"`(\w+)`", section("## Results")))
    elsewhere = properties_of("MetricDefinition", schemas) | properties_of("Condition", schemas)
    assert properties_of("ResultsOfExperiment", schemas) <= named | elsewhere
    assert {code.value for code in ReasonCode} <= named
    assert {decision.value for decision in Decision} <= named


def properties_of(name: str, schemas: dict[str, Any]) -> set[str]:
    """The names of all properties of a schema, and of those that it refers to."""
    found, waiting = set(), [schemas[name]]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, dict):
            found |= set(schema.get("properties", ()))
            waiting += [*schema.values(), schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else None]
        elif isinstance(schema, list):
            waiting += schema
    return found


def test_curl__blocks_outside_the_tour__do_not_exist():
    assert "curl -" not in README.replace(section("## A tour of the API"), "")


def test_settings__all_that_are_read__stand_in_the_table():
    read = set(re.findall(r'\benv(?:\.\w+)?\(\s*"([A-Z_]+)"', (ROOT / "config/settings.py").read_text()))
    assert len(read) > 10
    assert {f"`{name}`" for name in read} == {row[0] for row in table("## Settings")}


def own_commands() -> dict[str, BaseCommand]:
    return {
        name: load_command_class(app, name)
        for app in ("config", "events", "flags", "experiments")
        for name in find_commands(str(ROOT / app / "management"))
    }


def test_commands__own__stand_in_the_table_with_every_option():
    common = {option for action in BaseCommand().create_parser("", "")._actions for option in action.option_strings}
    rows = {re.match(r"`(\w+)", row[0])[1]: " ".join(row) for row in table("## Commands")}
    commands = own_commands()
    assert rows.keys() == commands.keys()
    for name, command in commands.items():
        actions = command.create_parser("manage.py", name)._actions
        options = {option for action in actions for option in action.option_strings} - common
        assert set(re.findall(r"--[a-z-]+", rows[name])) == options, name


def test_maintenance__tasks__stand_in_the_table_in_their_order():
    assert [row[0] for row in table("## Maintenance")] == [f"`{task}`" for task in maintenance.tasks]


def test_errors__codes__stand_in_the_table_with_status_and_meaning():
    rows = [row for row in table("## Errors") if len(row) == 3]
    assert rows == [[str(code.status), f"`{code.value}`", code.meaning] for code in ErrorCode]


def test_errors__codes_of_details__stand_in_the_table_with_their_meaning():
    rows = [row for row in table("## Errors") if len(row) == 2 and row[0].startswith("`")]
    assert rows == [[f"`{code.value}`", code.meaning] for code in DetailCode]


def test_make__targets__stand_in_the_table():
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = [row[0] for row in table("## Working on it") if row[0].startswith("`make ")]
    assert sorted(rows) == sorted(f"`make {target}`" for target in phony.split())


def test_evaluation__rules_operators_and_reasons__all_stand_there():
    named = {name for row in table("## Evaluation") for name in re.findall(r"`(\w+)`", row[0])}
    assert named == {*RuleType, *OPERATORS, *Reason, *common_fields_of_rules()}


def common_fields_of_rules() -> set[str]:
    """What a rule of any type that people write may have besides."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    schemas = document["components"]["schemas"]
    names = [each["$ref"].rpartition("/")[2] for each in schemas["Rule"]["oneOf"]]
    # That of an experiment has fields of its own: nobody else writes it.
    rules = [schemas[name]["properties"].keys() for name in names if name != "ExperimentRule"]
    return set.intersection(*map(set, rules)) - {"type"} | {"percentage"}  # that one is not in need of a ramp


def test_filters__of_every_list__stand_in_the_table():
    document = SchemaGenerator().get_schema(request=None, public=True)
    described = {
        path.replace("{flag_key}", "<key>"): {
            each["name"] for each in operation["get"]["parameters"] if each["in"] == "query"
        }
        for path, operation in document["paths"].items()
        if any(each["name"] == "limit" for each in operation.get("get", {}).get("parameters", ()))
    }
    rows = [row for row in table("## Filters and headers") if row[0].startswith("`/v1")]
    named = {
        row[0].strip("`"): set(re.findall(r"`(\w+)(?:\.<name>)?`", re.sub(r"\(.*?\)", "", row[1]))) for row in rows
    }
    assert {path: names - {"limit", "cursor"} for path, names in described.items()} == named


def test_headers__of_every_operation__stand_in_the_table():
    document = SchemaGenerator().get_schema(request=None, public=True)
    described = {"Authorization", "X-API-Key", "X-Environment"}
    for methods in document["paths"].values():
        for operation in methods.values():
            described |= {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
            described |= {name for answer in operation["responses"].values() for name in answer.get("headers", ())}
    rows = [row[0] for row in table("## Filters and headers") if not row[0].startswith("`/v1")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == described


def test_stale_flags__reasons__stand_in_the_table_with_their_meaning():
    rows = list(table("## Usage and stale flags"))
    assert rows == [[f"`{reason.value}`", reason.meaning] for reason in StaleReason]


def test_scopes__all__stand_in_the_table():
    assert [row[0] for row in table("## Environments and keys")] == [f"`{scope.value}`" for scope in Scope]


class TestBucketing:
    """Whoever copies the code of the README gets what the service computes."""

    @pytest.fixture
    def code(self) -> dict[str, Any]:
        [source] = re.findall(r"^```python\n(.*?)^```$", section("## Bucketing"), re.DOTALL | re.MULTILINE)
        names: dict[str, Any] = {}
        exec(source, names)
        return names

    @pytest.fixture
    def vectors(self) -> dict[str, Any]:
        folder = ROOT / "tests/flags/vectors"
        return {name: json.loads((folder / f"{name}.json").read_text())[name] for name in ("buckets", "splits")}

    def test_code__every_published_bucket__is_reproduced(self, code, vectors):
        assert len(vectors["buckets"]) == 200
        for vector in vectors["buckets"]:
            assert code["bucket"](vector["salt"], vector["userId"]) == vector["bucket"]

    def test_code__every_published_split__is_reproduced(self, code, vectors):
        assert len(vectors["splits"]) == 50
        for vector in vectors["splits"]:
            weights = [(variant["key"], variant["weight"]) for variant in vector["weights"]]
            assert code["choose_variant"](weights, vector["salt"], vector["userId"]) == vector["variant"]

    def test_code__share__ends_exactly_at_its_bucket(self, code):
        assert code["is_in_share"](51.93, "new-checkout", "user-1") is True
        assert code["is_in_share"](51.929, "new-checkout", "user-1") is False

    def test_table__buckets__are_published_vectors(self, vectors):
        rows = [[cell.strip("`") for cell in row] for row in table("## Bucketing")]
        published = {(vector["salt"], vector["userId"]): vector["bucket"] for vector in vectors["buckets"]}
        assert len(rows) == 3
        assert all(published[salt, user_id] == int(bucket) for salt, user_id, bucket in rows)

    def test_text__split__is_a_published_vector(self, vectors):
        example = re.search(
            r"salt `([^`]+)` and the weights `(\w+)` ([\d.]+), `(\w+)` ([\d.]+) and `(\w+)` ([\d.]+), "
            r"the user `([^`]+)` gets the variant `(\w+)`",
            section("## Bucketing"),
        )
        salt, *weights, user_id, variant = example.groups()
        pairs = [{"key": key, "weight": float(weight)} for key, weight in zip(weights[::2], weights[1::2], strict=True)]
        assert {"salt": salt, "userId": user_id, "weights": pairs, "variant": variant} in vectors["splits"]


def test_links__to_sections_and_files__lead_somewhere():
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (target[1:] in anchors) if target.startswith("#") else (ROOT / target).exists(), target
