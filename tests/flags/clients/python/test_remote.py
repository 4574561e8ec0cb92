"""Evaluation by the service: requests, their answers, and that event loops are not blocked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from halyard_openfeature import HalyardProvider
from halyard_openfeature.api import retry_after
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode, InvalidContextError, OpenFeatureError, TypeMismatchError

ADA = EvaluationContext("ada", {"country": "CH"})
GREEN = {
    **{"key": "colour", "value": "#0f0", "variant": "green", "reason": "SPLIT"},
    "metadata": {"flagSetId": "production", "experiment": "colours"},
}


class Answers:
    """A service that always gives the same answer."""

    def __init__(self, status: int = 200, answer: Any = GREEN, **options: Any) -> None:
        self.response, self.options = (status, answer), options
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        status, answer = self.response
        return httpx.Response(status, json=answer, **self.options)

    def provider(self, **options: Any) -> HalyardProvider:
        http_options = {"transport": httpx.MockTransport(self)}
        return HalyardProvider("http://flags.test", "hyd_s_key", http_options=http_options, **options)


def test_resolve__flag__is_asked_for_with_user_and_key() -> None:
    answers = Answers()
    details = answers.provider().resolve_string_details("colour", "", ADA)

    assert (details.value, details.variant, details.reason, details.flag_metadata) == (
        *("#0f0", "green", "SPLIT"),
        GREEN["metadata"],
    )
    [request] = answers.requests
    assert request.url.path == "/ofrep/v1/evaluate/flags/colour"
    assert request.headers["Authorization"] == "Bearer hyd_s_key"
    assert json.loads(request.content) == {"context": {"country": "CH", "targetingKey": "ada"}}


def test_resolve__any_flag_key__stays_one_part_of_the_path() -> None:
    answers = Answers()
    answers.provider().resolve_string_details("a/b?c#ä", "", ADA)

    assert answers.requests[0].url.raw_path == b"/ofrep/v1/evaluate/flags/a%2Fb%3Fc%23%C3%A4"


def test_resolve__refusal__is_an_error_with_its_code(subtests: pytest.Subtests) -> None:
    for status, answer, code in [
        (404, {"errorCode": "FLAG_NOT_FOUND", "errorDetails": "None."}, ErrorCode.FLAG_NOT_FOUND),
        (400, {"errorCode": "TARGETING_KEY_MISSING", "errorDetails": "Send one."}, ErrorCode.TARGETING_KEY_MISSING),
        (400, {"errorCode": "INVALID_CONTEXT", "errorDetails": "No."}, ErrorCode.INVALID_CONTEXT),
        (400, {"errorCode": "OF_A_LATER_VERSION", "errorDetails": "No."}, ErrorCode.GENERAL),
        (401, {"errorDetails": "Send an API key."}, ErrorCode.GENERAL),
        (503, {"errorDetails": "Later."}, ErrorCode.GENERAL),
        (200, ["no object"], ErrorCode.PARSE_ERROR),
    ]:
        with subtests.test(status=status):
            with pytest.raises(OpenFeatureError) as caught:
                Answers(status, answer).provider().resolve_string_details("colour", "", ADA)
            assert caught.value.error_code is code
            assert caught.value.error_message


def test_resolve__value_of_another_type__is_a_mismatch() -> None:
    with pytest.raises(TypeMismatchError):
        Answers(answer={**GREEN, "value": True}).provider().resolve_integer_details("colour", 0, ADA)


def test_resolve__too_many_requests__asks_no_more_for_a_while() -> None:
    answers = Answers(429, {"errorDetails": "Slow down."}, headers={"Retry-After": "60"})
    provider = answers.provider()
    for _ in range(3):
        with pytest.raises(OpenFeatureError):
            provider.resolve_string_details("colour", "", ADA)

    assert len(answers.requests) == 1


def test_resolve__service_is_away__is_an_error() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    provider = HalyardProvider("http://flags.test", "key", http_options={"transport": httpx.MockTransport(refuse)})

    with pytest.raises(OpenFeatureError) as caught:
        provider.resolve_string_details("colour", "", ADA)
    assert "does not answer" in str(caught.value.error_message)


def test_resolve__cycle__is_refused_without_a_request() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    answers = Answers()

    with pytest.raises(InvalidContextError):
        answers.provider().resolve_string_details("colour", "", EvaluationContext("ada", cycle))
    assert answers.requests == []


def test_resolve__number_that_json_cannot_hold__is_an_invalid_context() -> None:
    with pytest.raises(InvalidContextError):
        Answers().provider().resolve_string_details("colour", "", EvaluationContext("ada", {"digits": 10**5_000}))


def test_resolve_async__many_at_once__wait_together_and_block_nothing() -> None:
    """Each request waits until all have begun, which is impossible if one blocks the loop."""

    async def ask() -> list[str]:
        waiting, all_wait = 0, asyncio.Event()

        async def answer(_: httpx.Request) -> httpx.Response:
            nonlocal waiting
            waiting += 1
            if waiting == 100:
                all_wait.set()
            await all_wait.wait()
            return httpx.Response(200, json=GREEN)

        options = {"transport": httpx.MockTransport(answer)}
        provider = HalyardProvider("http://flags.test", "key", timeout=30, http_options=options)
        asked = [provider.resolve_string_details_async("colour", "", ADA) for _ in range(100)]
        details = await asyncio.wait_for(asyncio.gather(*asked), 30)
        await provider.shutdown_async()
        return [answered.value for answered in details]

    assert asyncio.run(ask()) == ["#0f0"] * 100


def test_resolve_async__event_loops_that_ended__leave_nothing_behind() -> None:
    provider = Answers().provider()
    loops = [asyncio.new_event_loop() for _ in range(3)]
    for loop in loops:
        loop.run_until_complete(provider.resolve_string_details_async("colour", "", ADA))
        loop.close()

    assert list(provider._api._by_loop) == loops[-1:]


def test_pause__that_the_service_asks_for__is_an_hour_at_most() -> None:
    for text, seconds in [("9" * 400, 3_600), ("60", 60), ("soon", 0)]:
        assert retry_after(httpx.Response(429, headers={"Retry-After": text})) == seconds, (text, seconds)


def test_exposures__in_remote_mode__are_left_to_the_service() -> None:
    assert Answers().provider().get_provider_hooks() == []


def test_exposures__asked_for_in_remote_mode__follow_the_metadata() -> None:
    metadata = {"experiment": "colours", "experimentVariant": "treatment", "inExperiment": True}
    answers = Answers(answer={**GREEN, "metadata": metadata})
    provider = answers.provider(exposures=True, event_interval=3_600)
    api.set_provider_and_wait(provider, "remote")
    for _ in range(2):
        assert api.get_client("remote").get_string_value("colour", "", ADA) == "#0f0"
    answers.response = (202, {"data": []})
    assert provider.flush()

    [event] = json.loads(answers.requests[-1].content)["events"]
    assert (event["event"], event["userId"]) == ("experiment_exposure", "ada")
    assert event["properties"] == {"country": "CH", "experimentId": "colours", "variant": "treatment"}
