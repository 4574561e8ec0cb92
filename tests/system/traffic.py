"""Traffic of every kind, and a count of what a fault did to it: nothing may be lost, doubled or unanswered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.system.load import ANSWERED, BROKEN, NEW_USER, REFUSED, Question, load
from tests.system.recorders import Ledger, check, recording
from tests.system.server import Server

_ON = b'{"data":{"enabled":true,"reason":"default"}}'
_SERVED = b'{"data":{"enabled":true,"reason":"rule_match"}}'
_ON_FRESH, _ON_KEPT = 1, 2
"""Clients for each of two flags: connections of their own for each request, and connections that they keep."""
_EVALUATING = 2 * (_ON_FRESH + _ON_KEPT)
_PAUSE = 0.005
"""As fast as they can, these clients would take the processor from what they watch."""


def make_flags(server: Server) -> None:
    """Make a flag, and another one that an experiment drives."""
    for key in ("known", "driven"):
        assert server.ask("POST", "/v1/flags", json={"key": key, "enabled": True}).status_code == 201
    serves = {"control": True, "green": True}
    variants = [{"key": key, "weight": 1} for key in serves]
    experiment = {"key": "driving", "variants": variants, "flag": {"key": "driven", "serves": serves}}
    assert server.ask("POST", "/v1/experiments", json=experiment).status_code == 201
    assert server.ask("POST", "/v1/experiments/driving/start").status_code == 200


@contextmanager
def evaluating(*servers: Server, pause: float = _PAUSE) -> Iterator[Counter[str]]:
    """Evaluate the flags of `make_flags` until the block ends, the driven one for a new user each time.

    The counter has the outcomes then.
    """
    counted: Counter[str] = Counter()
    with ExitStack() as loads:
        questions = [question for server in servers for question in _questions(server, pause)]
        counters = [
            loads.enter_context(load(question, processes=1, on_fresh=_ON_FRESH, on_kept=_ON_KEPT))
            for question in questions
        ]
        yield counted
    for counter in counters:
        counted.update(counter)


def _questions(server: Server, pause: float) -> list[Question]:
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    return [
        Question(server.port, "/v1/flags/known/evaluate", headers, b'{"userId": "u"}', _ON, pause),
        Question(server.port, "/v1/flags/driven/evaluate", headers, b'{"userId": "%b"}' % NEW_USER, _SERVED, pause),
    ]


@contextmanager
def traffic(*servers: Server, kills: int = 0, restarts: bool = False, pause: float = 0.0) -> Iterator[Ledger]:
    """Clients of every kind at work until the block ends. Then, nothing has been lost, doubled or left unanswered.

    Each kill may break the connections that the process holds. While the server restarts, nobody listens. With a pause
    between their requests, clients leave the processor to others, and there is less to check afterwards.
    """
    make_flags(servers[0])
    with evaluating(*servers, pause=max(pause, _PAUSE)) as evaluated, recording(*servers, pause=pause) as ledger:
        yield ledger
    expected = {ANSWERED, *[BROKEN] * bool(kills), *[REFUSED] * restarts}
    assert evaluated[ANSWERED] > 0
    assert evaluated.keys() <= expected, evaluated
    assert evaluated[BROKEN] <= kills * _EVALUATING, evaluated
    for server in servers:
        check(ledger, server)
