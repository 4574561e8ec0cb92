"""Exposures and tracked events: each reaches the service once."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import httpx
import pytest
from halyard_openfeature import HalyardProvider, events
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.hook import Hook, HookContext, HookHints
from openfeature.track import TrackingEventDetails

from tests.flags.clients.python.service import Service, Watched

ADA = EvaluationContext("ada", {"country": "CH", "revenue": 7, "tags": ["a"], "bad": "a\0b", "long": "x" * 201})
Start = Callable[..., Watched]
LATER = 3_600.0  # no batch leaves before the test sends it


@pytest.fixture
def client(start: Start) -> OpenFeatureClient:
    provider = start(initialize=False, event_interval=LATER)
    api.set_provider_and_wait(provider, "events")
    return api.get_client("events")


def provider_of(client: OpenFeatureClient) -> Watched:
    provider = client.provider
    assert isinstance(provider, Watched)
    return provider


def test_exposure__several_evaluations__is_reported_once_for_each_user(
    client: OpenFeatureClient, service: Service
) -> None:
    for context in (ADA, ADA, EvaluationContext("bob"), ADA):
        assert client.get_string_value("colour", "", context) == "#0f0"
    assert provider_of(client).flush()

    assert [(event["event"], event["userId"]) for event in service.events] == [
        ("experiment_exposure", "ada"),
        ("experiment_exposure", "bob"),
    ]
    first, second = service.events
    assert first["properties"] == {"country": "CH", "experimentId": "colours", "variant": "treatment"}
    assert second["properties"] == {"experimentId": "colours", "variant": "treatment"}
    assert UUID(first["id"]) != UUID(second["id"])
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() is not None


class SignIn(Hook):
    """A hook of the application that replaces the user of the caller."""

    def before(self, hook_context: HookContext, hints: HookHints) -> EvaluationContext:
        return EvaluationContext("ada", {"country": "CH"})


def test_exposure__user_set_by_another_hook__is_the_one_evaluated(client: OpenFeatureClient, service: Service) -> None:
    client.add_hooks([SignIn()])
    assert client.get_string_value("colour", "", EvaluationContext("device-7")) == "#0f0"
    assert provider_of(client).flush()

    [event] = service.events
    assert (event["userId"], event["properties"]["country"]) == ("ada", "CH")


def test_exposure__flag_without_experiment_or_forced_user__is_not_reported(
    client: OpenFeatureClient, service: Service
) -> None:
    client.get_boolean_value("plain", False, ADA)
    client.get_boolean_value("no-such", False, ADA)
    client.get_integer_value("colour", 0, ADA)  # of another type, so that the user sees the default
    assert client.get_string_details("colour", "", EvaluationContext("tester")).flag_metadata["inExperiment"] is False
    assert provider_of(client).flush()

    assert service.events == []


def test_exposure__experiment_that_the_ruleset_does_not_have__is_dropped_with_one_line(
    client: OpenFeatureClient, service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_of(client), "_knows", lambda _: False)
    hook = provider_of(client).get_provider_hooks()[0]
    monkeypatch.setattr(hook, "_knows", lambda _: False)
    for user in ("ada", "bob"):
        client.get_string_value("colour", "", EvaluationContext(user))
    assert provider_of(client).flush()

    assert service.events == []
    assert caplog.text.count("'colours'") == 1


def test_track__value_and_attributes__become_properties(client: OpenFeatureClient, service: Service) -> None:
    details = TrackingEventDetails(7.5, {"plan": "pro", "revenue": 19.9, "currency": "EUR"})
    client.track("checkout", ADA, details)
    client.track("visit", ADA)
    client.track("zero", ADA, TrackingEventDetails(0))
    assert provider_of(client).flush()

    assert [(event["event"], event["properties"]) for event in service.events] == [
        ("checkout", {"plan": "pro", "revenue": 19.9, "currency": "EUR", "value": 7.5}),
        ("visit", {}),
        ("zero", {"value": 0}),
    ]


def test_track__without_user_or_with_a_cycle__is_dropped_with_one_line(
    client: OpenFeatureClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    for _ in range(2):
        client.track("visit", EvaluationContext())
        client.track("order", ADA, TrackingEventDetails(1, cycle))  # type: ignore[arg-type]
    assert provider_of(client).flush()

    assert service.events == []
    lines = [record.getMessage() for record in caplog.records if record.name == "halyard_openfeature"]
    assert [line.partition(" ")[0] for line in lines] == ["visit", "order"]


def test_exposure__that_finds_the_queue_full__is_reported_later(start: Start, service: Service) -> None:
    provider = start(initialize=False, event_interval=LATER, event_capacity=1)
    api.set_provider_and_wait(provider, "full")
    client = api.get_client("full")
    provider.track("visit", ADA)
    client.get_string_value("colour", "", ADA)
    assert provider.flush()
    client.get_string_value("colour", "", ADA)
    assert provider.flush()

    assert [event["event"] for event in service.events] == ["visit", "experiment_exposure"]


def test_track__value_that_is_not_finite__is_dropped(client: OpenFeatureClient, service: Service) -> None:
    client.track("order", ADA, TrackingEventDetails(float("nan")))
    assert provider_of(client).flush()

    assert service.events == []


def test_track__number_that_json_cannot_hold__costs_no_other_event(client: OpenFeatureClient, service: Service) -> None:
    client.track("order", ADA, TrackingEventDetails(1, {"digits": 10**5_000}))
    client.track("visit", ADA)
    assert provider_of(client).flush()

    assert [event["event"] for event in service.events] == ["visit"]


def test_queue__failure__is_followed_by_the_same_events_with_the_same_ids(
    client: OpenFeatureClient, service: Service
) -> None:
    service.event_answers = [httpx.Response(503, headers={"Retry-After": "1"}), httpx.Response(202)]
    client.track("visit", ADA)

    assert provider_of(client).flush() is False
    assert provider_of(client).flush() is True

    sent = [request for request in service.requests if request.url.path == "/v1/events/batch"]
    assert len(sent) == 2
    assert sent[0].content == sent[1].content


def test_queue__rejected_event__is_dropped_and_logged(
    client: OpenFeatureClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = {"error": {"code": "validation_failed", "message": "events[0].event: Must not be empty."}}
    service.event_answers = [httpx.Response(400, json=refusal)]
    client.track("", ADA)

    assert provider_of(client).flush() is True
    assert "Must not be empty" in caplog.text


def test_queue__refusal_by_a_proxy__stops_nothing(client: OpenFeatureClient, service: Service) -> None:
    service.event_answers = [httpx.Response(400, json={"error": "blocked"})]
    for name in ("one", "two"):
        client.track(name, ADA)
        assert provider_of(client).flush()

    assert [event["event"] for event in service.events] == ["two"]


def test_queue__answer_of_another_form__stops_nothing(subtests: pytest.Subtests) -> None:
    for data in [None, "text", [None], [{"error": "text"}]]:
        with subtests.test(data=data):
            answer = httpx.Response(202, json={"data": data})
            options = {"transport": httpx.MockTransport(lambda _, answer=answer: answer)}
            provider = HalyardProvider("http://flags.test", "key", event_interval=LATER, http_options=options)
            provider.track("visit", ADA)

            assert provider.flush() is True


def test_queue__error_of_any_kind__does_not_end_the_thread(
    start: Start, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "pause_after", lambda *_: 0.01)
    service.broken_answers = 1
    provider = start(event_interval=0.01)
    provider.track("visit", ADA)
    while not service.events:  # the time limit of the test run ends it otherwise
        os.sched_yield()

    assert "they are sent again" in caplog.text


def test_queue__event_that_spoils_its_batch__loses_no_other(client: OpenFeatureClient, service: Service) -> None:
    refusal = {"error": {"code": "malformed_json", "message": "Lone surrogate."}}
    refused = httpx.Response(400, json=refusal)
    # All three, the first, the other two, and the second.
    service.event_answers = [refused, httpx.Response(202), refused, refused]
    for name in ("one", "two", "three"):
        client.track(name, ADA)

    assert provider_of(client).flush() is True
    assert [event["event"] for event in service.events] == ["one", "three"]


def test_queue__many_events__leave_in_batches(client: OpenFeatureClient, service: Service) -> None:
    for number in range(1_200):
        client.track("visit", EvaluationContext(f"user-{number}"))
    assert provider_of(client).flush()

    assert len({event["id"] for event in service.events}) == len(service.events) == 1_200
    assert max(map(len, service.batches)) <= 500


def test_queue__full__loses_the_newest_and_says_so_once(
    start: Start, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    provider = start(event_interval=LATER, event_capacity=2)
    for number in range(5):
        provider.track(f"event-{number}", ADA)
    assert provider.flush()

    assert [event["event"] for event in service.events] == ["event-0", "event-1"]
    assert caplog.text.count("Events are lost") == 1


def test_queue__by_itself__sends_after_its_interval(start: Start, service: Service) -> None:
    provider = start(event_interval=0.01)
    provider.track("visit", ADA)
    while not service.events:  # the time limit of the test run ends it otherwise
        os.sched_yield()

    assert [event["event"] for event in service.events] == ["visit"]


def test_shutdown__events_that_wait__are_sent(start: Start, service: Service) -> None:
    provider = start(initialize=False, event_interval=LATER)
    provider.track("visit", ADA)
    provider.shutdown()

    assert [event["event"] for event in service.events] == ["visit"]


def test_shutdown__again_with_events_that_are_lost__does_nothing(start: Start, service: Service) -> None:
    provider = start(initialize=False, event_interval=LATER)
    provider.track("visit", ADA)
    service.is_away = True
    provider.shutdown()
    provider.shutdown()  # as the end of the process does

    assert service.events == []


def test_provider__set_again_after_its_end__evaluates_and_sends(start: Start, service: Service) -> None:
    provider = start(event_interval=LATER)
    service.end_stream()
    provider.shutdown()
    provider.initialize(EvaluationContext())
    assert provider.resolve_string_details("colour", "", ADA).value == "#0f0"
    provider.track("visit", ADA)

    assert provider.flush()
    assert [event["event"] for event in service.events] == ["visit"]


def test_fork__after_the_end__leaves_the_provider_closed(start: Start, service: Service) -> None:
    provider = start(initialize=False, event_interval=LATER)
    provider.shutdown()
    provider._begin_in_child()
    provider.track("visit", ADA)

    assert service.events == []
    assert provider._api.client.is_closed


def test_fork__in_the_child__sends_no_event_of_the_parent(start: Start, service: Service) -> None:
    provider = start(initialize=False, event_interval=LATER)
    provider.track("visit", ADA)
    provider._begin_in_child()

    assert provider.flush()
    assert service.events == []
    provider.track("another", ADA)
    assert provider.flush()
    assert [event["event"] for event in service.events] == ["another"]
