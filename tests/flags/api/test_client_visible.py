"""Flags that keys of scope `client` do not see: to them, such a flag does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from config.models import Change, Environment, Scope
from flags.models import Flag
from tests.admin import filled, sign_in
from tests.answers import data, error
from tests.flags.admin.test_flags import address
from tests.flags.ofrep.calls import ask_all, bulk, by_key, one

pytestmark = pytest.mark.django_db

USER = {"userId": "u"}


@pytest.fixture
def hidden(api: Any) -> Flag:
    """A flag that clients do not see, and one that needs it."""
    data(api.post("/v1/flags", {"key": "hidden", "enabled": True, "clientVisible": False}), 201)
    data(api.post("/v1/flags", {"key": "shown", "enabled": True, "prerequisites": [{"flag": "hidden"}]}), 201)
    return Flag.objects.get(key="hidden")


@pytest.fixture
def client(client_of: Callable[..., Any]) -> Any:
    return client_of(Scope.CLIENT)


def without_id(response: Any) -> Any:
    body = response.json()
    body.get("error", {}).pop("requestId", None)
    return response.status_code, body


@pytest.mark.both_lanes
def test_evaluate__flag_that_clients_do_not_see__is_not_found_as_if_there_were_none(client: Any, hidden: Flag) -> None:
    answers = [client.post(f"/v1/flags/{key}/evaluate", USER) for key in ("hidden", "nohide")]
    error(answers[0], 404, "flag_not_found")
    status, body = without_id(answers[0])
    body["error"]["message"] = body["error"]["message"].replace("hidden", "nohide")
    assert (status, body) == without_id(answers[1])
    answers = [one(client, key) for key in ("hidden", "nohide")]
    assert (answers[0].status_code, answers[0].json()["errorCode"]) == (404, "FLAG_NOT_FOUND")
    assert answers[0].content.replace(b"hidden", b"nohide") == answers[1].content


@pytest.mark.both_lanes
def test_evaluate_all__flag_that_clients_do_not_see__is_left_out_and_still_decides(client: Any, hidden: Flag) -> None:
    on = {"enabled": True, "reason": "default"}
    assert data(client.post("/v1/evaluate", USER)) == {"shown": on}
    named = data(client.post("/v1/evaluate", {**USER, "flags": ["hidden", "shown", "none"]}))
    assert named["shown"] == on
    assert named["hidden"]["error"]["code"] == named["none"]["error"]["code"] == "flag_not_found"
    assert by_key(ask_all(client)).keys() == {"shown"}
    assert ask_all(client, {"targetingKey": "u", "flags": ["hidden"]})["flags"] == []


@pytest.mark.both_lanes
@pytest.mark.parametrize("scope", [Scope.SERVER, Scope.MANAGE])
def test_evaluate__keys_of_servers__see_every_flag(client_of: Callable[..., Any], hidden: Flag, scope: Scope) -> None:
    server = client_of(scope)
    assert data(server.post("/v1/flags/hidden/evaluate", USER))["enabled"] is True
    assert data(server.post("/v1/evaluate", USER)).keys() == {"hidden", "shown"}
    assert one(server, "hidden").json()["value"] is True
    assert by_key(ask_all(server)).keys() == {"hidden", "shown"}


@pytest.mark.both_lanes
def test_client_visible__changed__is_seen_at_once_and_by_the_entity_tag(api: Any, client: Any, hidden: Flag) -> None:
    before = bulk(client)
    data(api.patch("/v1/flags/hidden", {"clientVisible": True}))
    after = bulk(client, HTTP_IF_NONE_MATCH=before["ETag"])
    assert (after.status_code, by_key(after.json()).keys()) == (200, {"hidden", "shown"})
    assert data(client.post("/v1/flags/hidden/evaluate", USER))["enabled"] is True


def test_client_visible__in_the_api__is_left_out_while_it_is_true(api: Any, staging_api: Any, hidden: Flag) -> None:
    shown = data(api.get("/v1/flags/hidden"))
    assert shown["clientVisible"] is data(staging_api.get("/v1/flags/hidden"))["clientVisible"] is False
    assert "clientVisible" not in data(api.get("/v1/flags/shown"))
    assert data(api.patch("/v1/flags/hidden", shown)) == shown
    for value in (True, None):
        assert "clientVisible" not in data(api.patch("/v1/flags/hidden", {"clientVisible": value}))
        data(api.patch("/v1/flags/hidden", {"clientVisible": False}))
    assert [flag.get("clientVisible") for flag in data(api.get("/v1/ruleset"))["flags"]] == [False, None]
    for wrong in (0, "false", []):
        details = error(api.patch("/v1/flags/hidden", {"clientVisible": wrong}), 400, "validation_failed")["details"]
        assert [detail["field"] for detail in details] == ["clientVisible"]


@pytest.mark.parametrize(("query", "keys"), [("true", ["shown"]), ("false", ["hidden"])])
def test_list__by_visibility__has_those_flags_alone(api: Any, hidden: Flag, query: str, keys: list[str]) -> None:
    assert [flag["key"] for flag in data(api.get(f"/v1/flags?clientVisible={query}"))] == keys


def test_client_visible__of_an_existing_flag__needs_a_key_that_may_change_what_is_common(
    client_of: Callable[..., Any], hidden: Flag
) -> None:
    own = client_of(Scope.MANAGE, "staging", common=False)
    error(own.patch("/v1/flags/hidden", {"clientVisible": True}), 403, "forbidden")


def test_admin__form_and_history__say_whether_clients_see_the_flag(hidden: Flag, production: Environment) -> None:
    admin = sign_in()
    page = address("change", hidden)
    assert filled(admin, page).get("client_visible") is None
    assert admin.post(page, filled(admin, page, client_visible="on")).status_code == 302
    assert Change.objects.latest("revision").after.get("clientVisible") is None
    assert filled(admin, page)["client_visible"] is True
    assert admin.post(page, filled(admin, page, client_visible=None)).status_code == 302
    text = admin.get(address("history", hidden)).content.decode()
    assert "Let client keys see the flag" in text
    assert "Hid the flag from client keys" in text
