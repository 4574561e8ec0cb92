"""POST /v1/flags/<key>/preview, as a client sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Change, Environment, Scope
from tests.answers import data, error
from tests.conftest import NOON
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.usage.users import seen, store

PATH = "/v1/flags/f/preview"
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
COLOURS = [{"key": "blue", "value": 1}, {"key": "red", "value": 2}]
IDS = [f"user-{number}" for number in range(200)]


@pytest.fixture(autouse=True)
def _clock() -> Any:
    with time_machine.travel(NOON + timedelta(hours=1), tick=False):
        yield


@pytest.fixture
def users(production: Environment) -> None:
    """Users of whom every fourth has the plan pro."""
    store(production, *(seen(user_id, plan="free" if at % 4 else "pro") for at, user_id in enumerate(IDS)))


@pytest.mark.usefixtures("users")
def test_preview__conditions__counts_the_users_who_would_see_something_else(api: Any, staging_api: Any) -> None:
    FlagFactory(key="f", on=True, rules=[{"type": "users", "userIds": IDS[:10]}])
    answer = data(api.post(PATH, {"rules": [{"type": "attribute", "conditions": [PRO]}]}))
    examples = answer.pop("examples")
    # Of the ten, three have the plan pro, and stay. The other seven lose the flag, and 47 others get it.
    assert answer == {
        "status": "ok", "since": "2026-01-31T12:00:00.000000Z", "users": 200, "changed": 54, "share": 0.27,
        "allUsers": 200, "unknownAttributes": [],
    }  # fmt: skip
    assert len(examples) == 10
    for example in examples:
        number = IDS.index(example["userId"])
        assert example["before"] == {"enabled": number < 10} != example["after"] == {"enabled": number % 4 == 0}
    assert data(staging_api.post(PATH, {"enabled": False})) == {"status": "empty"}


@pytest.mark.usefixtures("users")
def test_preview__variants__shows_those_of_the_examples(api: Any) -> None:
    FlagFactory(key="f", on=True, type="number", variants=COLOURS, default_variant="blue", off_variant="red")
    answer = data(api.post(PATH, {"rules": [{"type": "users", "userIds": ["user-7"], "variant": "red"}]}))
    assert answer["changed"] == 200
    by_id = {example["userId"]: example for example in answer["examples"]}
    [example] = [example for user_id, example in by_id.items() if user_id != "user-7"][:1]
    assert (example["before"], example["after"]) == (
        {"enabled": True, "variant": "blue"}, {"enabled": False, "variant": "red"},
    )  # fmt: skip


@pytest.mark.usefixtures("users")
def test_preview__switched_off_or_unchanged__counts_all_or_none(api: Any) -> None:
    FlagFactory(key="f", on=True)
    revision = Change.objects.latest_revision()
    off, unchanged = data(api.post(PATH, {"enabled": False})), data(api.post(PATH, {"enabled": True, "rules": []}))
    assert (off["changed"], off["share"], unchanged["changed"], unchanged["examples"]) == (200, 1, 0, [])
    assert (Change.objects.latest_revision(), data(api.get("/v1/flags/f"))["enabled"]) == (revision, True)


@pytest.mark.usefixtures("users")
def test_preview__attribute_that_no_user_has__says_so(api: Any) -> None:
    FlagFactory(key="f", on=True)
    rules = [{"type": "attribute", "conditions": [PRO, {**PRO, "attribute": "tier"}]}]
    assert data(api.post(PATH, {"rules": rules}))["unknownAttributes"] == ["tier"]


def test_preview__no_recent_user_or_switched_off__says_so_instead_of_a_number(api: Any, settings: Any) -> None:
    FlagFactory(key="f", on=True)
    assert data(api.post(PATH, {"enabled": False})) == {"status": "empty"}
    settings.RECENT_USERS = False
    assert data(api.post(PATH, {"enabled": False})) == {"status": "off"}


@pytest.mark.usefixtures("users")
def test_preview__what_an_update_would_refuse__is_refused(api: Any) -> None:
    FlagFactory(key="f", on=True)
    ExperimentFactory(key="e", flag={"key": "f", "serves": {"control": False, "green": True}}, running=True)
    error(api.post(PATH, {"rules": []}), 409, "experiment_locked")
    error(api.patch("/v1/flags/f", {"rules": []}), 409, "experiment_locked")
    error(api.post("/v1/flags/nope/preview", {"enabled": True}), 404, "flag_not_found")
    error(api.post(f"{PATH}?users=5", {"enabled": True}), 400, "invalid_parameter")
    FlagFactory(key="g", on=True)
    segment = {"rules": [{"type": "segment", "segment": "nope"}]}
    refused = [error(api.post("/v1/flags/g/preview", body), 400, "validation_failed") for body in ({}, segment)]
    assert [refusal["details"][0]["field"] for refusal in refused] == ["rules", "rules[0].segment"]


@pytest.mark.usefixtures("users")
def test_preview__driven_flag__compares_users_with_the_variants_that_they_have(api: Any) -> None:
    FlagFactory(key="f", on=True)
    ExperimentFactory(key="e", flag={"key": "f", "serves": {"control": False, "green": True}}, running=True)
    on = sum(data(api.post("/v1/flags/f/evaluate", {"userId": user_id}))["enabled"] for user_id in IDS)
    assert 0 < on < 200
    assert data(api.post(PATH, {"enabled": False}))["changed"] == on


@pytest.mark.usefixtures("users")
def test_preview__any_change__writes_nothing(api: Any) -> None:
    FlagFactory(key="f", on=True)
    before, newest = data(api.get("/v1/flags/f")), Change.objects.latest("revision").revision
    assert data(api.post(PATH, {"enabled": False, "rules": [{"type": "users", "userIds": IDS[:1]}]}))["changed"] == 200
    assert data(api.get("/v1/flags/f")) == before
    assert Change.objects.latest("revision").revision == newest


def test_preview__key_of_an_app__may_not_see_ids_of_users(client_of: Any) -> None:
    FlagFactory(key="f", on=True)
    of_app, of_server = client_of(Scope.CLIENT), client_of(Scope.SERVER)
    error(of_app.post(PATH, {"enabled": False}), 403, "forbidden")
    assert data(of_server.post(PATH, {"enabled": False})) == {"status": "empty"}
