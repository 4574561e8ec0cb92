"""Clients in processes of their own that record the same kind of events: as batches over HTTP, and
by COPY.
"""

from __future__ import annotations

import json
import multiprocessing
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
from uuid_utils import uuid7

from flags.engine.bucketing import compile_split
from tests.benchmarks.load import TICKS_A_SECOND, cpu_seconds
from tests.system.server import Server

A_BATCH = 500
EXPERIMENT, VARIANTS = "green-button", ("control", "green")
_NAMES = ("page_viewed", "product_viewed", "cart_opened", "checkout_started", "purchase", "search", "signup", "login")
EXPOSED = [str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)) for number in range(20_000)]
"""Users whom a benchmark exposes before it measures. Their ids are spread as random ones are."""
_variant_of = compile_split([(variant, 1) for variant in VARIANTS], EXPERIMENT)
_COPY = (
    "COPY events_event (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties)"
    " FROM STDIN"
)


def start_experiment(server: Server) -> None:
    """Start the experiment that some of the events name."""
    experiment = {
        "key": EXPERIMENT,
        "variants": [{"key": key, "weight": 1} for key in VARIANTS],
        "metrics": ["purchase"],
    }
    server.ask("POST", "/v1/experiments", json=experiment).raise_for_status()
    server.ask("POST", f"/v1/experiments/{EXPERIMENT}/start").raise_for_status()


def draw_events(random: Random, count: int = A_BATCH) -> list[dict[str, Any]]:
    """As clients send them: half with an id of their own, most with a timestamp, some with money or
    with the variant of an experiment that the hash gives the user.
    """
    now = datetime.now(UTC)
    events = []
    for _ in range(count):
        name = random.choice(_NAMES)
        properties = {"path": f"/products/{random.randrange(5_000)}", "plan": random.choice(("free", "pro"))}
        if name == "purchase":
            properties |= {"revenue": random.randrange(10_000) / 100, "currency": "EUR"}
        user_id = f"user-{random.randrange(200_000)}"
        if random.random() < 0.1:
            properties |= {"experimentId": EXPERIMENT, "variant": _variant_of(user_id)}
        event = {"event": name, "userId": user_id, "properties": properties}
        if random.random() < 0.5:
            event["id"] = str(uuid4())
        if random.random() < 0.8:
            event["timestamp"] = (now - timedelta(seconds=random.random() * 3600)).isoformat()
        events.append(event)
    return events


def draw_exposures(random: Random, count: int = A_BATCH) -> list[dict[str, Any]]:
    """As the service's own clients report them, of users who were never reported before."""
    return [exposure_of(str(UUID(bytes=random.randbytes(16)))) for _ in range(count)]


def draw_repeated_exposures(random: Random, count: int = A_BATCH) -> list[dict[str, Any]]:
    """The same, of some of the users in `EXPOSED`."""
    return [exposure_of(user_id) for user_id in random.sample(EXPOSED, count)]


def exposure_of(user_id: str) -> dict[str, Any]:
    properties = {"experimentId": EXPERIMENT, "variant": _variant_of(user_id)}
    event = {"event": "experiment_exposure", "userId": user_id, "properties": properties, "id": str(uuid4())}
    return {**event, "timestamp": datetime.now(UTC).isoformat()}


class Stretch(NamedTuple):
    """The time and the CPU time that clients took to send their requests, in seconds."""

    seconds: float
    cpu_of_machine: float
    cpu_of_server: float


def send_together(client: Callable[..., None], arguments: Sequence[tuple[Any, ...]], pids: Sequence[int]) -> Stretch:
    """Start a client for each of these, and measure from when all of them are ready until all of
    them are done.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(arguments) + 1)  # broken by a client that fails
    processes = [context.Process(target=client, args=(barrier, *argument), daemon=True) for argument in arguments]
    for process in processes:
        process.start()
    barrier.wait(300)
    before = (time.perf_counter(), busy_seconds(), cpu_seconds(pids))
    barrier.wait(3600)
    after = (time.perf_counter(), busy_seconds(), cpu_seconds(pids))
    for process in processes:
        process.join(60)
    return Stretch(*(late - early for early, late in zip(before, after, strict=True)))


def busy_seconds() -> float:
    """Return the CPU time of all processes since the machine started."""
    user, nice, system, _idle, _iowait, *interrupts = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / TICKS_A_SECOND


def send_by_http(
    barrier: Any,
    port: int,
    headers: Mapping[str, str],
    batches: int,
    draw: Callable[[Random], list[dict[str, Any]]] = draw_events,
) -> None:
    random = Random(secrets.token_bytes(8))
    bodies = [json.dumps({"events": draw(random)}).encode() for _ in range(batches)]
    _send(barrier, port, headers, bodies)


def send_by_http_for_long(barrier: Any, port: int, headers: Mapping[str, str], batches: int) -> None:
    """The same few events again and again, but for their ids, so that clients need little time and
    memory.
    """
    events = draw_events(Random(secrets.token_bytes(8)))
    for event in events:
        if "id" in event:
            event["id"] = "00000000" + event["id"][8:]
    body = json.dumps({"events": events}).encode()
    _send(
        barrier,
        port,
        headers,
        (body.replace(b"00000000-", secrets.token_hex(4).encode() + b"-") for _ in range(batches)),
    )


def _send(barrier: Any, port: int, headers: Mapping[str, str], bodies: Iterable[bytes]) -> None:
    try:
        connection = HTTPConnection("127.0.0.1", port)
        connection.connect()
        barrier.wait()
        for body in bodies:
            connection.request("POST", "/v1/events/batch", body, {**headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            acknowledged = answer.read()
            assert answer.status == 202, acknowledged
            assert acknowledged.count(b'"accepted"') == A_BATCH
        barrier.wait()
    except BaseException:
        barrier.abort()
        raise


def send_by_copy(barrier: Any, dsn: str, batches: int) -> None:
    random = Random(secrets.token_bytes(8))
    try:
        with psycopg.connect(dsn) as connection:
            [[environment]] = connection.execute("SELECT id FROM config_environment WHERE key = 'production'")
            texts = ["".join([_row(event, environment) for event in draw_events(random)]) for _ in range(batches)]
            barrier.wait()
            for text in texts:
                with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
                    copy.write(text)
                connection.commit()
            barrier.wait()
    except BaseException:
        barrier.abort()
        raise


def _row(event: Mapping[str, Any], environment: int) -> str:
    """An event as the service stores it. None of its texts has anything that means something to
    COPY.
    """
    now = datetime.now(UTC).isoformat()
    properties = event["properties"]
    named = (properties.get("experimentId", ""), properties.get("variant", ""))
    moments = (event.get("timestamp", now), now)
    columns = (event.get("id", uuid7()), environment, event["userId"], event["event"], *moments, *named)
    return "\t".join(map(str, (*columns, json.dumps(properties, separators=(",", ":"))))) + "\n"
