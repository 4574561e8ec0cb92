"""Evaluations and single events while 10,000 flags are imported, and while another import changes all of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.load import EACH, Request, Sample, press_while
from tests.benchmarks.postgresql import fresh_database
from tests.benchmarks.tables import print_bars, print_samples
from tests.system.connections import ENOUGH_FOR_EVERY_WORKER, ask_separately
from tests.system.server import Server, serving, wait_until

WORKERS, CONNECTIONS = 2, 200
# Clients that ask as fast as answers come would occupy every core, and wait for a core whatever else the server does.
EVALUATIONS_A_SECOND, EVENTS_A_SECOND = 2_000, 400
FLAGS = 10_000
MOST_MILLISECONDS = 100
SECONDS_TO_APPLY = 120

KNOWN = {"key": "known", "enabled": True}
CONDITION = {"attribute": "country", "operator": "in", "value": ["CH", "DE"]}
IMPORTS = {"created": 25, "changed": 50}
"""The percentage in the rule of each flag after an import."""


def run() -> bool:
    print(
        f"Imports: {FLAGS:,} flags, {WORKERS} workers, and from {CONNECTIONS} connections each up to "
        f"{EVALUATIONS_A_SECOND:,} evaluations and {EVENTS_A_SECOND} events a second"
    )
    held = [measure(name) for name in ("SQLite", "PostgreSQL")]
    return all(held)


def measure(database: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        on_file = nullcontext(f"sqlite:///{folder / 'halyard.sqlite3'}")
        with (
            fresh_database() if database == "PostgreSQL" else on_file as url,
            serving(folder, url, workers=WORKERS) as server,
        ):
            server.ask("POST", "/v1/flags", json=KNOWN).raise_for_status()
            samples = {what: press_during_import(server, what) for what in IMPORTS}
    return report(database, samples)


def press_during_import(server: Server, what: str) -> list[Sample]:
    """Press until every worker has applied the import."""
    file = server.folder / f"{what}.json"
    file.write_text(json.dumps(content(what)))
    headers = server.headers("client")
    evaluation = Request(f"{server.url}/v1/flags/known/evaluate", "POST", headers, {"userId": "user-17"})
    event = Request(f"{server.url}/v1/events", "POST", headers, {"event": "purchase", "userId": EACH})
    evaluation = replace(evaluation, pause=_pause(EVALUATIONS_A_SECOND))
    event = replace(event, pause=_pause(EVENTS_A_SECOND))

    def import_flags() -> None:
        server.run("manage.py", "import_flags", str(file))
        wait_until(lambda: is_known_everywhere(server, what), "the import is applied", SECONDS_TO_APPLY)

    return press_while([evaluation, event], import_flags, connections=CONNECTIONS)


def _pause(requests_a_second: int) -> int:
    """Return the milliseconds between the requests of one connection."""
    return round(1000 * CONNECTIONS / requests_a_second)


def content(what: str) -> Mapping[str, object]:
    """Return a file of all flags, and one that has the name of the import."""
    state = {"enabled": True, "rules": [{"type": "percentage", "percentage": IMPORTS[what], "conditions": [CONDITION]}]}
    flags = [{"key": f"flag-{number}", "environments": {"production": state}} for number in range(FLAGS)]
    return {"version": 1, "flags": [*flags, {"key": what, "environments": {"production": {"enabled": True}}}]}


def is_known_everywhere(server: Server, key: str) -> bool:
    path = f"/v1/flags/{key}/evaluate"
    answers = [ask_separately(server, path, {"userId": "u"}) for _ in range(ENOUGH_FOR_EVERY_WORKER)]
    return {answer.status for answer in answers} == {200}


def report(database: str, samples: Mapping[str, list[Sample]]) -> bool:
    names = [f"{kind} while flags are {what}" for what in samples for kind in ("evaluations", "events")]
    measured = [sample for pair in samples.values() for sample in pair]
    print_samples(names, [tuple(measured)])
    limit = f"at most {MOST_MILLISECONDS} ms at p99 on {database}"
    rows = zip(names, measured, strict=True)
    for name, sample in zip(names, measured, strict=True):
        print(f"{name}: {sample.failed:,} refused")
    return print_bars(
        {f"{name} {limit}": sample.milliseconds_99 <= MOST_MILLISECONDS and not sample.failed for name, sample in rows}
    )
