"""`DELETE /v1/users/<userId>` erases exactly the user that the address names, and answers every other one clearly."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from config.models import Environment
from events.models import Event
from experiments.models import Exposure
from tests.answers import data, error
from tests.config.api.wire import send
from tests.experiments.calls import report, track
from tests.factories import EventFactory, ExperimentFactory, KeyFactory

pytestmark = pytest.mark.django_db


def address(user: str) -> str:
    return f"/v1/users/{quote(user, safe='')}"


def test_erase__user_with_events_and_exposures__answers_what_went_and_which_numbers_changed(api: Any) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    report(api, "ada", "green")
    track(api, "ada")
    track(api, "bob")

    assert data(api.delete("/v1/users/ada")) == {
        "userId": "ada",
        "events": 2,
        "exposures": 1,
        "experiments": [{"id": str(experiment.pk), "key": "e", "status": "running"}],
    }
    assert [each["userId"] for each in data(api.get("/v1/events"))] == ["bob"]
    assert not Exposure.objects.exists()
    assert data(api.get("/v1/experiments/e"))["results"]["green"] == {"conversion": 0.0, "sampleSize": 0}


def test_erase__user_whom_nobody_knows__answers_zeros_however_often(api: Any) -> None:
    for _ in range(2):
        nothing = {"userId": "nobody", "events": 0, "exposures": 0, "experiments": []}
        assert data(api.delete("/v1/users/nobody")) == nothing


def test_erase__key_of_another_environment__leaves_this_one_alone(api: Any, staging_api: Any) -> None:
    track(api, "ada")

    assert data(staging_api.delete("/v1/users/ada"))["events"] == 0
    assert Event.objects.count() == 1


def test_erase__id_of_any_characters__erases_that_user_alone(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    for user in [
        "a/b", "/a", "a/", "a//b", "a b", "a?b", "a#b", "100%", "%41", "é 😀", "a\nb", "\n", "a+b", "u" * 200,
        "é" * 200,
    ]:  # fmt: skip
        with subtests.test(user=user):
            for each in (user, "a", "A", "b", "ab"):
                EventFactory(user_id=each)

            assert data(api.delete(address(user)))["userId"] == user
            assert set(Event.objects.values_list("user_id", flat=True)) == {"a", "A", "b", "ab"}


def test_erase__id_that_nobody_can_have__is_refused_by_its_name(
    subtests: pytest.Subtests, production: Environment
) -> None:
    for user in ("%FF", "%C3(", "%ED%A0%80", "\ufffd"):
        EventFactory(user_id=user)
    _, secret = KeyFactory()
    for target, code in [
        (address("u" * 201), "too_long"), (address("a\0b"), "invalid_value"), ("/v1/users/%FF", "invalid_value"),
        ("/v1/users/%C3%28", "invalid_value"), ("/v1/users/%ED%A0%80", "invalid_value"),
    ]:  # fmt: skip
        with subtests.test(target=target):
            answer = send("DELETE", target, key=secret)
            assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_parameter")
            [detail] = answer.json()["error"]["details"]
            assert (detail["field"], detail["code"]) == ("userId", code)
            assert Event.objects.count() == 4


def test_erase__id_with_percent_signs__is_taken_at_its_word(production: Environment) -> None:
    EventFactory(user_id="%FF")
    _, secret = KeyFactory()

    assert send("DELETE", "/v1/users/%25FF", key=secret).json()["data"]["events"] == 1


def test_erase__no_id__is_no_address(api: Any) -> None:
    error(api.delete("/v1/users/"), 404, "not_found")
    error(api.delete("/v1/users"), 404, "not_found")


def test_users__other_methods__are_refused(subtests: pytest.Subtests, api: Any) -> None:
    for method in ["get", "post", "patch", "put"]:
        with subtests.test(method=method):
            response = getattr(api, method)("/v1/users/ada")
            error(response, 405, "method_not_allowed")
            assert response["Allow"] == "DELETE"


def test_erase__parameter_or_body__is_refused_and_nothing_erased(api: Any) -> None:
    track(api, "ada")
    [detail] = error(api.delete("/v1/users/ada?dryRun=true"), 400, "invalid_parameter")["details"]
    assert (detail["field"], detail["code"]) == ("dryRun", "unknown_field")
    [detail] = error(api.delete("/v1/users/ada", {"dryRun": True}), 400, "validation_failed")["details"]
    assert detail["field"] == "dryRun"
    assert Event.objects.count() == 1
