"""Clients that record, whatever happens to the service, and what must be true of it afterwards.

Each sends events and asks for variants, with ids or keys of its own, the same request again and
again until every server that it was meant for has acknowledged it. They write down the
answers; `check` compares the service with them.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from tests.system.server import Server, wait_until

EXPERIMENT, VARIANTS = "under-load", ("control", "green")
SECONDS_TO_ANSWER, SECONDS_TO_RECOVER, SECONDS_BETWEEN_TRIES = 60, 60, 0.05
EVENTS_A_BATCH = 200
_USERS_OF_A_WINDOW, _TOGETHER = 8, 40

Kind = Literal["event", "keyed", "batch", "variant"]
"""Keyed: an event whose id the service chooses, made safe to send again by an `Idempotency-Key`."""
CLIENTS: Mapping[Kind, int] = {"event": 3, "keyed": 2, "batch": 2, "variant": 3}
_PATHS: Mapping[Kind, str] = {
    "event": "/v1/events",
    "keyed": "/v1/events",
    "batch": "/v1/events/batch",
    "variant": f"/v1/experiments/{EXPERIMENT}/variant",
}


class Answer(NamedTuple):
    status: int
    body: Any
    retry_after: str | None


@dataclass(repr=False)
class Ledger:
    """The requests of the clients, and the answers that they got."""

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each event that was acknowledged, by its id."""
    variants: dict[str, str] = field(default_factory=dict)
    """The first variant that each user got."""
    reported: set[str] = field(default_factory=set)
    """The users of acknowledged events that say they were shown REPORTED."""
    accepted: Counter[str] = field(default_factory=Counter)
    """How often each event that came with an id was answered `accepted`, and not `duplicate`."""
    acknowledged: Counter[Kind] = field(default_factory=Counter)
    unavailable: Counter[Kind] = field(default_factory=Counter)
    lost: int = 0
    """Connections that broke or were not accepted."""
    wrong: list[str] = field(default_factory=list)
    """Answers that no client should ever get."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def window(self) -> int:
        """Return a number that grows with acknowledged requests. Clients use the same users while
        it is the same.
        """
        return sum(self.acknowledged.values()) // _TOGETHER

    def wait_for_progress(self, least: int = 5) -> None:
        """Until so many more requests of each kind are acknowledged."""
        before = Counter(self.acknowledged)
        wait_until(
            lambda: bool(self.wrong) or all(self.acknowledged[kind] >= before[kind] + least for kind in CLIENTS),
            f"requests of each kind are acknowledged after {before}",
            SECONDS_TO_RECOVER,
        )

    def wait_for_refusals(self, kinds: Collection[Kind] = tuple(CLIENTS)) -> None:
        """Wait until clients of these kinds were asked to try again later."""
        before = Counter(self.unavailable)
        wait_until(
            lambda: bool(self.wrong) or all(self.unavailable[kind] > before[kind] for kind in kinds),
            f"requests of {kinds} are answered with 503 after {before}",
            SECONDS_TO_RECOVER,
        )


REPORTED = "green"


class Line:
    """One client's connection to one server, opened again whenever it is lost."""

    def __init__(self, server: Server, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_TO_ANSWER)
        self._headers = {**headers, "Content-Type": "application/json"}
        self._is_lost = False

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            self._connection.request("POST", path, body, {**self._headers, **headers})
            self._is_lost = False
        except ConnectionError:
            self.close()

    def receive(self) -> Answer | None:
        """Return the answer to a request, or None if the connection broke."""
        if self._is_lost:
            return None
        try:
            response = self._connection.getresponse()
            return Answer(response.status, json.loads(response.read()), response.getheader("Retry-After"))
        except (ConnectionError, http.client.IncompleteRead):
            self.close()
            return None

    def close(self) -> None:
        self._connection.close()
        self._is_lost = True


class Recorder(threading.Thread):
    """One client. Each of its requests goes to all of the servers at once, and the next one so many seconds later."""

    def __init__(
        self,
        kind: Kind,
        number: int,
        servers: Sequence[Server],
        ledger: Ledger,
        has_ended: threading.Event,
        pause: float,
    ):
        super().__init__(name=f"{kind} {number}")
        self.kind, self.servers, self.ledger, self.has_ended, self.pause = kind, servers, ledger, has_ended, pause
        self.chance = random.Random(self.name)

    def run(self) -> None:
        headers = self.servers[0].headers()  # the same caller everywhere: an `Idempotency-Key` is their own
        lines = [Line(server, headers) for server in self.servers]
        try:
            while not self.has_ended.is_set():
                self._ask(lines, self._make_request())
                self.has_ended.wait(self.pause)
        except Exception as error:
            self.ledger.wrong.append(f"{self.name}: {error!r}")
            raise
        finally:
            for line in lines:
                line.close()

    def _make_request(self) -> dict[str, Any]:
        match self.kind:
            case "event":
                return self._make_event()
            case "keyed":
                return {name: value for name, value in self._make_event().items() if name != "id"}
            case "batch":
                return {"events": [self._make_event() for _ in range(EVENTS_A_BATCH)]}
            case "variant":
                return {"userId": self._choose_user()}

    def _make_event(self) -> dict[str, Any]:
        event = {
            "id": self._make_id(),
            "event": self.kind,
            "userId": self._choose_user(),
            "timestamp": datetime.now(UTC).isoformat(),
            "properties": {"tab\tand\\": "\n"},
        }
        if self.chance.random() < 0.1:
            event["properties"] = {"experimentId": EXPERIMENT, "variant": REPORTED}
        return event

    def _make_id(self) -> str:
        return str(UUID(int=self.chance.getrandbits(128), version=4))

    def _choose_user(self) -> str:
        """Return a user: mostly one that other clients write about at the same time."""
        return f"user-{self.ledger.window()}-{self.chance.randrange(_USERS_OF_A_WINDOW)}"

    def _ask(self, lines: Sequence[Line], request: dict[str, Any]) -> None:
        body = json.dumps(request).encode()
        headers = {"Idempotency-Key": self._make_id()} if self.kind == "keyed" else {}
        waiting = list(lines)
        while True:
            for line in waiting:
                line.send(_PATHS[self.kind], body, headers)
            waiting = [line for line in waiting if not self._is_acknowledged(request, line.receive())]
            if not waiting or self.ledger.wrong:
                return
            self.has_ended.wait(SECONDS_BETWEEN_TRIES)

    def _is_acknowledged(self, request: dict[str, Any], answer: Answer | None) -> bool:
        with self.ledger.lock:
            if answer is None:
                self.ledger.lost += 1
                return False
            if _is_refusal(answer):
                self.ledger.unavailable[self.kind] += 1
                return False
            if wrong := self._note(request, answer):
                self.ledger.wrong.append(f"{self.name}: {wrong}: {answer}"[:2000])
            self.ledger.acknowledged[self.kind] += 1
            return True

    def _note(self, request: dict[str, Any], answer: Answer) -> str:
        """Record the answer, and return what is wrong with it, if anything."""
        if answer.status != (200 if self.kind == "variant" else 202):
            return "not acknowledged, and not asked to try again"
        data = answer.body["data"]
        if self.kind == "variant":
            answered = self.ledger.variants.setdefault(request["userId"], data["variant"])
            return "" if data["variant"] == answered else f"the user got {answered} before"
        sent, entries = (request["events"], data) if self.kind == "batch" else ([request], [data])
        if self.kind == "keyed":
            request.setdefault("id", data["id"])  # of its first answer: any other has to be the same
        if [entry["id"] for entry in entries] != [event["id"] for event in sent]:
            return "these are not the ids that were sent"
        for event, entry in zip(sent, entries, strict=True):
            if entry["status"] not in ("accepted", "duplicate"):
                return "not accepted, and not a duplicate"
            self._note_event(event, is_first=entry["status"] == "accepted" and self.kind != "keyed")
        return ""

    def _note_event(self, event: dict[str, Any], *, is_first: bool) -> None:
        self.ledger.events[event["id"]] = event
        self.ledger.accepted.update([event["id"]] * is_first)
        if "variant" in event["properties"]:
            self.ledger.reported.add(event["userId"])


def _is_refusal(answer: Answer) -> bool:
    """Return whether the answer says to try again later, as documented."""
    return answer.status == 503 and answer.body["error"]["code"] == "unavailable" and bool(answer.retry_after)


@contextmanager
def recording(*servers: Server, pause: float = 0.0) -> Iterator[Ledger]:
    """Clients of every kind at work until the block ends, each then until its last request is
    acknowledged. Each waits for so many seconds between two requests.
    """
    start_experiment(servers[0])
    ledger, has_ended = Ledger(), threading.Event()
    clients = [
        Recorder(kind, number, servers, ledger, has_ended, pause)
        for kind, count in CLIENTS.items()
        for number in range(count)
    ]
    for client in clients:
        client.start()
    try:
        ledger.wait_for_progress()
        yield ledger
    except BaseException:
        ledger.wrong.append("the test has failed")  # so that no client retries forever
        raise
    finally:
        has_ended.set()
        for client in clients:
            client.join()


def start_experiment(server: Server) -> None:
    variants = [{"key": key, "weight": 1} for key in VARIANTS]
    made = server.ask("POST", "/v1/experiments", json={"key": EXPERIMENT, "variants": variants})
    assert made.status_code == 201, made.text
    assert server.ask("POST", f"/v1/experiments/{EXPERIMENT}/start").status_code == 200


def check(ledger: Ledger, server: Server) -> None:
    """Assert that exactly the acknowledged events are stored, once and as sent, and that the
    numbers are right.
    """
    assert not ledger.wrong, (ledger.wrong[:3], server.failures())
    assert set(ledger.accepted.values()) <= {1}
    stored = stored_events(server)
    assert len(stored) == len({event["id"] for event in stored})
    assert _different({event["id"]: _as_sent(event) for event in stored}, ledger.events) == []
    expected = dict.fromkeys(ledger.reported, REPORTED) | ledger.variants
    assert _different(stored_exposures(server), expected) == []
    results = server.ask_after_outage("GET", f"/v1/experiments/{EXPERIMENT}").json()["data"]["results"]
    counted = Counter(expected.values())
    assert {key: result["sampleSize"] for key, result in results.items()} == {key: counted[key] for key in VARIANTS}
    assert counted_events(server) == Counter(event["event"] for event in stored)


def _as_sent(record: dict[str, Any]) -> dict[str, Any]:
    timestamp = datetime.fromisoformat(record["timestamp"]).isoformat()
    return {name: record[name] for name in ("id", "event", "userId", "properties")} | {"timestamp": timestamp}


def _different(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return a few differences at most: the id or user, the actual value, and the expected one."""
    keys = sorted({*actual, *expected})
    return [(key, actual.get(key), expected.get(key)) for key in keys if actual.get(key) != expected.get(key)][:5]


def stored_events(server: Server) -> list[dict[str, Any]]:
    """All of them, page by page, as the `Link` header leads."""
    events: list[dict[str, Any]] = []
    path = "/v1/events?limit=1000"
    while True:
        response = server.ask_after_outage("GET", path)
        events += response.json()["data"]
        if "next" not in response.links:
            return events
        following = urlsplit(response.links["next"]["url"])
        path = f"{following.path}?{following.query}"


def stored_exposures(server: Server) -> dict[str, str]:
    """The variant of each user of the clients' experiment, as another process reads it."""
    code = (
        "import json\nfrom experiments.models import Experiment, Exposure\n"
        f"experiment = Experiment.objects.get(key='{EXPERIMENT}')\n"
        "exposures = Exposure.objects.filter(experiment=experiment.id)\n"
        "print(json.dumps(dict(exposures.values_list('user_id', 'variant'))))"
    )
    exposures: dict[str, str] = json.loads(server.run("manage.py", "shell", "--verbosity", "0", "--command", code))
    return exposures


def counted_events(server: Server) -> dict[str, int]:
    """How many events of each name there are, by the service's own counts."""
    data = server.ask_after_outage("GET", "/v1/events/counts").json()["data"]
    counted = {entry["event"]: entry["count"] for entry in data["events"]}
    assert sum(counted.values()) == data["total"]
    return counted
