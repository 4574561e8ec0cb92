"""Limits by key and address: who is limited, how it is said, and that the fast lane has the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from config.access.api_keys import create_key
from config.api import limits
from config.api.limits import TooManyRequests
from config.models import Scope
from events.models import Event
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory
from tests.transactions import case_undone

pytestmark = [pytest.mark.django_db, pytest.mark.both_lanes]

ELSEWHERE = {"REMOTE_ADDR": "203.0.113.7"}


@pytest.fixture(autouse=True)
def clock(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, float]]:
    settings.RATE_LIMIT_KEY, settings.RATE_LIMIT_ADDRESS = 2, 1
    clock = {"now": 1000.0}
    monkeypatch.setattr(limits.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(limits._limits, "full_at", [0.0] * limits.PLACES)
    return clock


@pytest.fixture
def evaluate(client: Any, production: Any) -> Any:
    flag = FlagFactory()

    def evaluate(secret: str, **environ: Any) -> Any:
        path, headers = f"/v1/flags/{flag.key}/evaluate", {"Authorization": f"Bearer {secret}"}
        return client.post(path, {"userId": "ada"}, "application/json", headers=headers, **environ)

    return evaluate


def key(environment: Any, scope: Scope) -> str:
    return create_key(name=f"a {scope}", environment=environment, scope=scope, actor=ACTOR, now=NOON)[1]


def statuses(answers: list[Any]) -> list[int]:
    return [answer.status_code for answer in answers]


def test_key__more_than_its_allowance__gets_429_that_says_when_to_come_back(
    evaluate: Any, production: Any, clock: dict[str, float]
) -> None:
    secret = key(production, Scope.SERVER)
    answers = [evaluate(secret) for _ in range(23)]
    assert statuses(answers) == [200] * 21 + [429] * 2
    refused = answers[-1]
    assert refused.json()["error"]["code"] == "rate_limited"
    words = "This API key may send 2 requests a second; send this one again in 1 second."
    assert refused.json()["error"]["message"] == words
    assert refused.headers["Retry-After"] == "1"
    assert refused.headers["RateLimit-Policy"] == '"key";q=20;w=10'
    assert re.fullmatch(r'"key";r=0;t=1', refused.headers["RateLimit"])
    clock["now"] += 1
    assert statuses([evaluate(secret) for _ in range(3)]) == [200, 200, 429]


def test_key__of_another_caller__has_an_allowance_of_its_own(evaluate: Any, production: Any) -> None:
    first, second = key(production, Scope.SERVER), key(production, Scope.SERVER)
    assert statuses([evaluate(first) for _ in range(22)])[-1] == 429
    assert evaluate(second).status_code == 200


def test_address__with_client_keys__is_limited_over_all_of_them(evaluate: Any, production: Any) -> None:
    secrets = [key(production, Scope.CLIENT) for _ in range(2)]
    answers = [evaluate(secrets[number % 2], **ELSEWHERE) for number in range(12)]
    assert statuses(answers) == [200] * 11 + [429]
    assert answers[-1].headers["RateLimit-Policy"] == '"address";q=10;w=10'
    assert evaluate(secrets[0], REMOTE_ADDR="198.51.100.1").status_code == 200


def test_address__of_a_server__is_not_limited(evaluate: Any, production: Any) -> None:
    secret = key(production, Scope.SERVER)
    assert statuses([evaluate(secret, **ELSEWHERE) for _ in range(20)]) == [200] * 20


def test_address__this_machine_and_networks__are_distinguished(
    subtests: pytest.Subtests, evaluate: Any, production: Any
) -> None:
    for addresses, last in [
        (["127.0.0.1"], 200),
        (["2001:db8::1", "2001:db8::ffff"], 429),
        (["2001:db8:0:1::1", "2001:db8:0:2::1"], 200),
        (["nonsense"], 200),
    ]:
        with subtests.test(addresses=addresses, last=last), case_undone():
            secrets = [key(production, Scope.CLIENT) for _ in addresses]
            answers = [
                evaluate(secrets[number % len(addresses)], REMOTE_ADDR=addresses[number % len(addresses)])
                for number in range(14)
            ]
            assert answers[-1].status_code == last


def test_address__of_a_client_behind_a_trusted_proxy__is_the_clients(
    evaluate: Any, production: Any, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    settings.RATE_LIMIT_KEY = 1000
    secret = key(production, Scope.CLIENT)
    for forwarded in ("203.0.113.1", "203.0.113.2"):
        answers = [evaluate(secret, REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=forwarded) for _ in range(12)]
        assert statuses(answers) == [200] * 11 + [429]


def test_caller__without_a_valid_key__is_limited_by_address(evaluate: Any) -> None:
    assert statuses([evaluate("hyd_c_wrong", **ELSEWHERE) for _ in range(12)]) == [401] * 11 + [429]


def test_batch__of_many_events__uses_the_allowance_of_several_requests(client: Any, production: Any) -> None:
    headers = {"Authorization": f"Bearer {key(production, Scope.SERVER)}"}
    events = {"events": [{"event": "e", "userId": "ada"}] * 1000}
    first, second = (client.post("/v1/events/batch", events, "application/json", headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 429)
    assert Event.objects.count() == 1000
    assert int(second.headers["Retry-After"]) == 41


def test_limits__of_0__are_none(evaluate: Any, production: Any, settings: Any) -> None:
    settings.RATE_LIMIT_KEY = settings.RATE_LIMIT_ADDRESS = 0
    secret = key(production, Scope.CLIENT)
    assert statuses([evaluate(secret, **ELSEWHERE) for _ in range(40)]) == [200] * 40


def test_ofrep__over_the_limit__answers_as_its_protocol_says(client: Any, production: Any) -> None:
    FlagFactory(key="f")
    headers = {"Authorization": f"Bearer {key(production, Scope.SERVER)}"}
    path, body = "/ofrep/v1/evaluate/flags/f", {"context": {"targetingKey": "ada"}}
    answers = [client.post(path, body, "application/json", headers=headers) for _ in range(22)]
    assert statuses(answers) == [200] * 21 + [429]
    assert answers[-1].json().keys() == {"errorDetails"}
    assert answers[-1].headers["Retry-After"] == "1"


def test_request__that_the_lane_leaves_to_django__is_counted_once() -> None:
    environ: dict[str, Any] = {"REMOTE_ADDR": "203.0.113.7"}
    for _ in range(50):
        limits.require_allowance(environ, None)
    for _ in range(10):
        limits.require_allowance({"REMOTE_ADDR": "203.0.113.7"}, None)
    with pytest.raises(TooManyRequests):
        limits.require_allowance({"REMOTE_ADDR": "203.0.113.7"}, None)
