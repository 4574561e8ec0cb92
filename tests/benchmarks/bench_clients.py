"""Clients that three generators write from the OpenAPI document: they compile, and read all of the
demo data.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests.benchmarks.load import MissingTool
from tests.benchmarks.tables import print_bars
from tests.system.server import PROXY_HEADERS, Server

TYPESCRIPT = Path(__file__).parent / "typescript"
OPENAPI_PYTHON_CLIENT, OPENAPI_GENERATOR = "openapi_python_client_of_halyard", "openapi_generator_of_halyard"
JSON = "application/json"
PLAN = MappingProxyType({"mde": 0.05, "baseline": 0.1})
Problem = str


class Word(str):
    """A text that a client may also use as an enumeration."""

    @property
    def value(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False)
class Read:
    """One request that reads: operation, path, the parameters of the path in order, and those of
    the query.
    """

    operation: str
    path: str
    keys: tuple[str, ...] = ()
    query: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.operation, *self.keys, *(f"{name}={value}" for name, value in self.query.items())])


def run() -> bool:
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as temporary:
        folder = Path(temporary)
        server = Server(folder, f"sqlite:///{folder}/db.sqlite3", workers=1)
        server.prepare()
        server.run("manage.py", "demo", "--users", "300", "--events", "3000")
        server.start()
        try:
            return _check(folder, server)
        finally:
            server.stop()


def _check(folder: Path, server: Server) -> bool:
    schema = folder / "schema.yaml"
    schema.write_bytes(server.ask("GET", "/v1/schema").content)
    answers = {read: server.ask("GET", read.path, params=_sent(read)) for read in _reads(server)}
    refused = [f"{read}: {answer.status_code} {answer.text}" for read, answer in answers.items() if answer.is_error]
    sys.path.insert(0, str(folder))
    problems = {
        "the service answers": refused,
        "openapi-typescript": _typescript(folder, schema, {read: answer.json() for read, answer in answers.items()}),
        "openapi-python-client": _openapi_python_client(folder, schema, server, list(answers)),
        "openapi-generator": _openapi_generator(folder, schema, server, list(answers)),
    }
    sys.path.remove(str(folder))
    print(f"Generated clients: {len(answers)} answers of the demo data")
    for name, found in problems.items():
        print(*(f"{name}: {problem}" for problem in found[:20]), sep="\n", end="\n" if found else "")
    return print_bars({f"{name}: {len(found)} problems": not found for name, found in problems.items()})


# --- reading ---------------------------------------------------------------------------------------------------------


def _sent(read: Read) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, bool) else value for name, value in read.query.items()}


def _reads(server: Server) -> Iterator[Read]:
    """Yield every object, and every way to read about it."""

    def keys(path: str) -> list[str]:
        return [entry["key"] for entry in server.ask("GET", path).json()["data"]]

    yield Read("list_changes", "/v1/audit", query={"limit": 100})
    yield Read("query_events", "/v1/events", query={"limit": 1000})
    yield Read("count_events", "/v1/events/counts")
    yield Read("get_ruleset", "/v1/ruleset")
    yield Read("plan_experiment", "/v1/planner", query=dict(PLAN))
    for name in ("flags", "segments", "metrics", "experiments"):
        yield Read(f"list_{name}", f"/v1/{name}")
        for key in keys(f"/v1/{name}"):
            yield Read(f"get_{name[:-1]}", f"/v1/{name}/{key}", (key,))
    for key in keys("/v1/flags"):
        yield Read("list_flag_history", f"/v1/flags/{key}/history", (key,))
        yield Read("get_flag_usage", f"/v1/flags/{key}/usage", (key,))
    for key in keys("/v1/experiments"):
        yield from _reads_of_experiment(server, key)


def _reads_of_experiment(server: Server, key: str) -> Iterator[Read]:
    path = f"/v1/experiments/{key}"
    experiment = server.ask("GET", path).json()["data"]
    yield Read("check_experiment", f"{path}/checklist", (key,))
    yield Read("get_results", f"{path}/results", (key,), {"series": Word("daily"), "audit": True})
    yield Read("plan_experiment", "/v1/planner", query={**PLAN, "experiment": key})
    if experiment["status"] != "draft":
        yield Read("get_results", f"{path}/results", (key,), {"breakdown": "country"})
    for metric in experiment["metrics"]:
        for variant in experiment["variants"]:
            query = {"metric": metric, "variant": variant["key"]}
            yield Read("explain_results", f"{path}/results/explain", (key,), query)


# --- the clients -----------------------------------------------------------------------------------------------------


def _run(command: list[str], **options: Any) -> list[Problem]:
    """Run a command and return the lines that it prints, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def _typescript(folder: Path, schema: Path, answers: dict[Read, Any]) -> list[Problem]:
    """Write types, and let the compiler hold every answer and every example of a request against
    them.
    """
    programs = TYPESCRIPT / "node_modules" / ".bin"
    if not programs.exists():
        raise MissingTool(f"The benchmark of clients needs openapi-typescript: `npm ci` in {TYPESCRIPT}.")
    if problems := _run([str(programs / "openapi-typescript"), str(schema), "--output", str(folder / "types.ts")]):
        return problems
    lines = ['import type { operations } from "./types";']
    for at, (read, answer) in enumerate(answers.items()):
        kind = f'operations["{read.operation}"]["responses"][200]["content"]["{JSON}"]'
        lines.append(f"export const answer{at}: {kind} = {json.dumps(answer)};")
    for at, (operation, value) in enumerate(_requests(schema)):
        kind = f'NonNullable<operations["{operation}"]["requestBody"]>["content"]["{JSON}"]'
        lines.append(f"export const request{at}: {kind} = {json.dumps(value)};")
    (folder / "answers.ts").write_text("\n".join(lines))
    return _run([str(programs / "tsc"), "--strict", "--noEmit", str(folder / "answers.ts")])


def _requests(schema: Path) -> Iterator[tuple[str, Any]]:
    """Return the examples of bodies by operation. They omit optional properties."""
    for methods in yaml.safe_load(schema.read_text())["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
            for example in content.get("examples", {}).values():
                yield operation["operationId"], example["value"]


def _openapi_python_client(folder: Path, schema: Path, server: Server, reads: list[Read]) -> list[Problem]:
    configuration = folder / "configuration.yaml"
    configuration.write_text("post_hooks: []\n")
    package = folder / OPENAPI_PYTHON_CLIENT
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    options = ["--path", str(schema), "--config", str(configuration), "--output-path", str(package)]
    if problems := _run([*command, *options]):
        return problems
    strict = _run([sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(package)], cwd=folder)
    client = importlib.import_module(f"{OPENAPI_PYTHON_CLIENT}.client").AuthenticatedClient(
        base_url=server.url, token=server.keys["production"]["manage"], headers=dict(PROXY_HEADERS)
    )

    def call(read: Read, tag: str) -> None:
        module = importlib.import_module(f"{OPENAPI_PYTHON_CLIENT}.api.{tag}.{read.operation}")
        assert module.sync(*read.keys, client=client, **_in_snake_case(read)) is not None

    return [*strict, *_problems(call, schema, reads)]


def _openapi_generator(folder: Path, schema: Path, server: Server, reads: list[Read]) -> list[Problem]:
    command = [
        str(Path(sys.executable).parent / "openapi-generator-cli"),
        "generate",
        "-g",
        "python",
        "-i",
        str(schema),
    ]
    options = ["-o", str(folder / "generator"), "--additional-properties", f"packageName={OPENAPI_GENERATOR}"]
    if problems := _run([*command, *options]):
        return problems
    sys.path.insert(0, str(folder / "generator"))
    package = importlib.import_module(OPENAPI_GENERATOR)
    client = package.ApiClient(package.Configuration(host=server.url, access_token=server.keys["production"]["manage"]))
    client.default_headers.update(PROXY_HEADERS)

    def call(read: Read, tag: str) -> None:
        api = getattr(package, f"{tag.capitalize()}Api")(client)
        getattr(api, read.operation)(*read.keys, **_in_snake_case(read))

    return _problems(call, schema, reads)


def _in_snake_case(read: Read) -> dict[str, Any]:
    return {re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name): value for name, value in read.query.items()}


def _problems(call: Callable[[Read, str], None], schema: Path, reads: list[Read]) -> list[Problem]:
    """Make every call, by the tag of its operation, and return the failures."""
    paths = yaml.safe_load(schema.read_text())["paths"]
    tags = {
        operation["operationId"]: operation["tags"][0].lower() for path in paths.values() for operation in path.values()
    }
    problems = []
    for read in reads:
        try:
            call(read, tags[read.operation])
        except Exception as error:
            problems.append(f"{read}: {type(error).__name__}: {str(error)[:500]}")
    return problems
