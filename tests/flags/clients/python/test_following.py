"""How local mode learns of changes: by the stream, by polling, and after an outage of the service."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from halyard_openfeature import follower, stream
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import GeneralError

from tests.flags.clients.python.service import PLAIN, Service, Watched

ADA = EvaluationContext("ada")
OFF = {**PLAIN, "enabled": False}
Start = Callable[..., Watched]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "pause_after", lambda *_: 0.01)
    monkeypatch.setattr(follower, "_SECONDS_TO_CATCH_UP", 0.01)


def is_on(provider: Watched) -> bool:
    return provider.resolve_boolean_details("plain", False, ADA).value


def test_stream__announced_change__is_fetched_and_emitted(start: Start, service: Service) -> None:
    provider = start()
    assert service.has_stream.wait(30)
    service.change(OFF)
    service.announce()

    name, details = provider.next_event()

    assert (name, details.flags_changed, details.metadata) == (
        *("PROVIDER_CONFIGURATION_CHANGED", ["plain"]),
        {"revision": 2},
    )
    assert not is_on(provider)


def test_stream__revision_that_is_known__fetches_nothing(start: Start, service: Service) -> None:
    provider = start()
    assert service.has_stream.wait(30)
    service.announce(revision=1)
    service.change(OFF)
    service.announce()
    provider.next_event()

    fetched = [request for request in service.requests if request.url.path == "/v1/ruleset"]
    assert len(fetched) == 3  # at the start, by the thread at its start, and after the change


def test_stream__that_ends__is_opened_again_after_a_fetch(start: Start, service: Service) -> None:
    provider = start()
    assert service.has_stream.wait(30)
    service.change(OFF)
    service.end_stream()

    assert provider.next_event()[0] == "PROVIDER_CONFIGURATION_CHANGED"
    service.change(PLAIN)
    service.announce()
    assert provider.next_event()[0] == "PROVIDER_CONFIGURATION_CHANGED"
    assert service.streams == 2
    assert is_on(provider)


def test_stream__not_offered__is_replaced_by_polling(start: Start, service: Service) -> None:
    service.has_streams = False
    provider = start(poll_interval=0.01)
    service.change(OFF)

    assert provider.next_event()[0] == "PROVIDER_CONFIGURATION_CHANGED"
    assert not is_on(provider)


def test_service__away_and_back__is_stale_and_then_ready(start: Start, service: Service) -> None:
    service.has_streams = False
    provider = start(poll_interval=0.01)
    service.is_away = True

    name, details = provider.next_event()
    assert (name, "does not answer" in details.message) == ("PROVIDER_STALE", True)
    assert is_on(provider)
    service.change(OFF)
    service.is_away = False
    assert {provider.next_event()[0], provider.next_event()[0]} == {"PROVIDER_READY", "PROVIDER_CONFIGURATION_CHANGED"}
    assert not is_on(provider)


def test_ruleset__that_the_engine_does_not_understand__leaves_the_last_one(start: Start, service: Service) -> None:
    service.has_streams = False
    provider = start(poll_interval=0.01)
    service.change({**PLAIN, "rules": [{"type": "attribute", "conditions": [{"operator": "resembles"}]}]})

    name, details = provider.next_event()

    assert (name, "install the one of your service" in details.message) == ("PROVIDER_STALE", True)
    assert is_on(provider)


def test_stream__token__stays_out_of_the_log_and_goes_without_the_key(
    start: Start, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    start()
    assert service.has_stream.wait(30)

    assert "/v1/ruleset" in caplog.text
    assert "secret" not in caplog.text
    [opened] = [request for request in service.requests if "streams" in request.url.path]
    assert "Authorization" not in opened.headers


def test_messages__of_a_stream__are_the_data_of_its_events() -> None:
    lines = ["retry: 2000", ": comment", "", "id: 1", "data: {", "data:}", "", "event: message", "", "data: lost"]

    assert list(stream.messages(lines)) == ["{\n}"]


def test_initialize__service_comes_back_before_anything_else__is_ready(start: Start, service: Service) -> None:
    service.has_streams, service.is_away = False, True
    provider = start(initialize=False, poll_interval=0.01)
    with pytest.raises(GeneralError):
        provider.initialize(EvaluationContext())
    service.is_away = False

    while (name := provider.next_event()[0]) != "PROVIDER_READY":
        assert name == "PROVIDER_STALE"
    assert is_on(provider)


def test_fork__in_the_child__follows_again(start: Start, service: Service) -> None:
    service.has_streams = False
    provider = start()
    assert provider._follower is not None
    provider._follower.stop()  # its thread stays with the parent
    provider._begin_in_child()

    assert provider.next_event()[0] == "PROVIDER_READY"
    assert is_on(provider)
