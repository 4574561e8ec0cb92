"""When a client's last answer is still current: its tag changes with what the answer depends on, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config import snapshot
from config.access.api_keys import create_key
from config.models import Scope
from config.serving import worker_process
from flags.ofrep import answers, tokens
from tests.answers import data
from tests.cases import undone
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.flags.ofrep.calls import ask_all, bulk, by_key

pytestmark = pytest.mark.both_lanes

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NEW_YEAR = NOON.replace(year=2099)
"""No change in these tests is older."""


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(NEW_YEAR, tick=False) as travelling:
        yield travelling


def create(api: Any, key: str = "f", **values: Any) -> Any:
    return data(api.post("/v1/flags", {"key": key, "enabled": True, **values}), 201)


def tag(client: Any, context: Any = None) -> str:
    response = bulk(client, {"targetingKey": "u"} if context is None else context)
    assert response.status_code == 200
    return str(response["ETag"])


def holds(client: Any, etag: str, context: Any = None) -> bool:
    """Return whether the service answers that the client's answer is still current."""
    response = bulk(client, {"targetingKey": "u"} if context is None else context, HTTP_IF_NONE_MATCH=etag)
    assert response.status_code in (200, 304)
    assert (response.status_code == 304) == (response["ETag"] == etag) == (response.content == b"")
    return bool(response.status_code == 304)


# --- 304 -------------------------------------------------------------------------------------------------------------


def test_if_none_match__that_names_the_tag__is_answered_with_nothing(subtests, api):
    create(api)
    etag = tag(api)
    for form in ["{}", "W/{}", '"x", {}', "*"]:
        with subtests.test(form=form):
            response = bulk(api, HTTP_IF_NONE_MATCH=form.format(etag))
            assert (response.status_code, response.content, response["ETag"]) == (304, b"", etag)
            assert "Content-Type" not in response


def test_if_none_match__that_names_another__is_answered_in_full(subtests, api):
    create(api)
    for header in ['"x"', "", '""', "W/", "\xfc"]:
        with subtests.test(header=header):
            assert bulk(api, HTTP_IF_NONE_MATCH=header).status_code == 200


def test_not_modified__answer__evaluates_no_flag(api, monkeypatch):
    create(api)
    etag = tag(api)
    monkeypatch.setattr(answers, "resolve", lambda *_: pytest.fail("a flag was evaluated"))
    assert holds(api, etag)


def test_not_modified__for_a_body_that_makes_no_sense__is_never_said(api):
    assert bulk(api, 1, HTTP_IF_NONE_MATCH="*").status_code == 400
    assert CommittingClient().post("/ofrep/v1/evaluate/flags", HTTP_IF_NONE_MATCH="*").status_code == 401


# --- what the tag depends on -----------------------------------------------------------------------------------------


def test_tag__same_question__is_the_same_however_its_context_is_ordered(api):
    create(api)
    etag = tag(api, {"targetingKey": "u", "a": 1, "b": {"x": 1, "y": 2}})
    assert holds(api, etag, {"b": {"y": 2, "x": 1}, "a": 1, "targetingKey": "u"})
    assert tag(api, {}) == tag(api, {"targetingKey": None}) == tag(api, {"targetingKey": ""})


def test_tag__another_context__makes_another(subtests, api):
    create(api)
    for context in [
        {}, {"targetingKey": "v"}, {"targetingKey": "u", "plan": "pro"}, {"targetingKey": "u", "plan": None},
        {"targetingKey": "u", "flags": ["f"]}, {"userId": "u"},
    ]:  # fmt: skip
        with subtests.test(context=context):
            assert not holds(api, tag(api), context)


def test_tag__another_environment_or_right_to_know__makes_another(api, staging_api, client_of):
    shipped, trusted = client_of(Scope.CLIENT), client_of(Scope.SERVER)
    create(api)
    etag = tag(api)
    assert not holds(staging_api, etag)
    assert not holds(shipped, etag)
    assert holds(trusted, etag)


def test_tag__change_of_a_flag_or_segment__makes_another(subtests, api):
    create(api)
    data(api.post("/v1/segments", {"key": "s"}), 201)
    etag = tag(api)
    for change in [
        lambda api: api.post("/v1/flags", {"key": "new"}),
        lambda api: api.patch("/v1/flags/f", {"enabled": False}),
        lambda api: api.patch("/v1/flags/f", {"rules": [{"type": "percentage", "percentage": 1}]}),
        lambda api: api.delete("/v1/flags/f"),
        lambda api: api.post("/v1/flags/f/archive"),
        lambda api: api.post("/v1/segments", {"key": "new", "userIds": ["u"]}),
        lambda api: api.patch("/v1/segments/s", {"userIds": ["u"]}),
    ]:
        with undone(subtests, change=change):
            assert change(api).status_code < 300
            assert not holds(api, etag)


def test_tag__change_of_another_environment_or_of_what_no_flag_asks_for__is_the_same(api, staging_api, production):
    create(api)
    etag = tag(api)
    data(staging_api.patch("/v1/flags/f", {"enabled": True}))
    create_key(name="other", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)
    snapshot.reset()
    assert holds(api, etag)


def test_tag__process_that_has_just_started__is_that_of_the_others(api, staging_api):
    create(api)
    data(staging_api.patch("/v1/flags/f", {"enabled": True}))
    etag = tag(api), tag(staging_api)
    snapshot.reset()
    assert (tag(api), tag(staging_api)) == etag


# --- what changes by itself ------------------------------------------------------------------------------------------


def test_tag__moment_that_a_rule_names__holds_until_then(subtests, api, clock):
    for rule in [
        {"startAt": (NEW_YEAR + HOUR).isoformat()},
        {"endAt": (NEW_YEAR + HOUR).isoformat()},
        {"ramp": [{"at": (NEW_YEAR + HOUR).isoformat(), "percentage": 0}]},
    ]:
        with undone(subtests, rule=rule):
            clock.move_to(NEW_YEAR)
            create(api, rules=[{"type": "percentage", "percentage": 100, **rule}])
            etag, before = tag(api), by_key(ask_all(api))
            clock.shift(HOUR - timedelta(microseconds=1))
            assert holds(api, etag)
            clock.shift(timedelta(microseconds=1))
            assert not holds(api, etag)
            assert by_key(ask_all(api))["f"]["value"] is not before["f"]["value"]
            etag = tag(api)
            clock.shift(1000 * HOUR)
            assert holds(api, etag)


def test_tag__moment_of_a_rule_or_flag_that_is_off__is_none(api, clock):
    rule = {"type": "percentage", "percentage": 100, "startAt": (NEW_YEAR + HOUR).isoformat()}
    create(api, "a", rules=[{**rule, "enabled": False}])
    create(api, "b", rules=[rule], enabled=False)
    etag = tag(api)
    clock.shift(2 * HOUR)
    assert holds(api, etag)


@pytest.mark.parametrize("door", ["condition", "segment"])
def test_tag__condition_that_moves_with_the_clock__holds_until_it_turns_for_this_user(api, clock, door):
    """The condition selects users who signed up less than a day ago."""
    lately = [{"attribute": "signedUpAt", "operator": "after", "value": "-1d"}]
    if door == "segment":
        data(api.post("/v1/segments", {"key": "new-users", "conditions": lately}), 201)
        create(api, rules=[{"type": "segment", "segment": "new-users"}])
    else:
        create(api, rules=[{"type": "attribute", "conditions": lately}])

    def user(hours_ago: int) -> dict[str, Any]:
        return {"targetingKey": "u", "signedUpAt": (NEW_YEAR - hours_ago * HOUR).isoformat()}

    contexts = {hours: user(hours) for hours in (1, 23, 48)}
    etag = {hours: tag(api, context) for hours, context in contexts.items()}
    values = {hours: by_key(ask_all(api, context))["f"]["value"] for hours, context in contexts.items()}
    assert values == {1: True, 23: True, 48: False}

    clock.shift(HOUR + MINUTE)
    assert [hours for hours, context in contexts.items() if not holds(api, etag[hours], context)] == [23]
    assert by_key(ask_all(api, contexts[23]))["f"]["value"] is False
    clock.shift(22 * HOUR)
    assert [hours for hours, context in contexts.items() if not holds(api, etag[hours], context)] == [1, 23]


def test_tag__attribute_that_is_no_moment__never_turns(subtests, api, clock):
    create(
        api,
        rules=[
            {
                "type": "attribute",
                "conditions": [{"attribute": "signedUpAt", "operator": "after", "value": "-1d"}],
            }
        ],
    )
    for signed_up_at in [None, 17, "lately", [], {}]:
        with subtests.test(signed_up_at=signed_up_at):
            context = {"targetingKey": "u", "signedUpAt": signed_up_at}
            etag = tag(api, context)
            clock.shift(1000 * HOUR)
            assert holds(api, etag, context)


# --- streams ---------------------------------------------------------------------------------------------------------


def test_tag__where_streams_are_served__holds_while_the_token_that_came_with_it_is_good(api, clock, monkeypatch):
    monkeypatch.setattr(worker_process, "stream_port", 8001)
    create(api)
    etag, began = tag(api), NEW_YEAR
    for minutes in range(300):
        now = NEW_YEAR + minutes * MINUTE
        clock.move_to(now)
        if holds(api, etag):
            assert began + tokens.LIFETIME - now > tokens.PERIOD
        else:
            etag, began = tag(api), now
            assert minutes % 30 == 0


def test_tag__streams_at_another_address_or_of_another_key__make_another(api, client_of, monkeypatch):
    other = client_of(Scope.MANAGE)
    create(api)
    without = tag(api)
    monkeypatch.setattr(worker_process, "stream_port", 8001)
    etag = tag(api)
    assert etag != without
    assert not holds(other, etag)
    monkeypatch.setattr(worker_process, "stream_port", 8002)
    assert not holds(api, etag)


# --- event streams --------------------------------------------------------------------------------------------------


def test_heard__revision_that_this_host_has_not_seen__is_looked_for_before_the_answer(api, production, monkeypatch):
    """Another host committed the change, and this host has no message of it yet."""
    create(api)
    ask_all(api)
    monkeypatch.setattr("config.snapshot.signal_file.signal_change", lambda: None)
    revision = ask_all(api)["metadata"]["revision"] + 1
    data(api.patch("/v1/flags/f", {"enabled": False}))
    assert ask_all(api)["metadata"]["revision"] == revision - 1
    answer = bulk(api, query=f"?flagConfigEtag=%22{revision}%22&flagConfigLastModified=1771622898").json()
    assert answer["metadata"]["revision"] == revision
    assert by_key(answer)["f"]["value"] is False


def test_heard__anything__is_answered_and_costs_a_query_at_most(subtests, api, django_assert_max_num_queries):
    create(api)
    ask_all(api)
    for query, queries in [
        ("flagConfigEtag=1", 0), ("flagConfigEtag=%221%22", 0), ("flagConfigEtag=99999999999999999999999999", 0),
        ("flagConfigEtag=x", 0), ("flagConfigEtag=", 0), ("flagConfigEtag=%FF", 0),
        ("flagConfigLastModified=then", 0), ("unknown=1&unknown=2", 0), ("flagConfigEtag=999999999999999999", 1),
        ("flagConfigEtag=99&flagConfigEtag=98", 1),
    ]:  # fmt: skip
        with subtests.test(query=query, queries=queries), django_assert_max_num_queries(queries):
            assert bulk(api, query=f"?{query}").status_code == 200


def test_heard__by_a_caller_without_a_key__asks_the_database_nothing(api, django_assert_max_num_queries):
    ask_all(api)
    with django_assert_max_num_queries(0):
        response = CommittingClient().post("/ofrep/v1/evaluate/flags?flagConfigEtag=999", {}, format="json")
    assert response.status_code == 401
