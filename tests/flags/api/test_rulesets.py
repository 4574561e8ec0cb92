"""Rulesets have everything an evaluator needs and nothing of other environments. Unchanged ones are not sent again."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest

from config.models import Change, Environment, Scope
from flags.api import rulesets
from flags.changes.flag_changes import archive_flag
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.snapshot import compiled, configuration
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory
from tests.flags.changes.random_changes import RandomChanges

COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]


def get(client: Any, **headers: str) -> Any:
    return client.get("/v1/ruleset", headers=headers)


def test_ruleset__flags_and_segments__are_as_they_stand_here(api: Any, production: Environment) -> None:
    api.post("/v1/segments", {"key": "crowd", "conditions": [], "userIds": ["ada"]})
    rules = [{"type": "segment", "segment": "crowd", "variant": "green"}]
    values = {"type": "string", "variants": COLOURS, "schema": {"type": "string"}, "prerequisites": [{"flag": "base"}]}
    api.post("/v1/flags", {"key": "base"})
    created = api.post("/v1/flags", {"key": "colour", "enabled": True, "rules": rules, "tags": ["t"], **values})
    assert created.status_code == 201
    versions = [int(api.get(f"/v1/flags/{key}")["ETag"].strip('"')) for key in ("base", "colour")]
    assert data(get(api)) == {
        "environment": "production",
        "revision": int(get(api)["ETag"].strip('W/"').rpartition("-")[2]),
        "flags": [
            {"key": "base", "enabled": False, "rules": [], "version": versions[0]},
            {
                "key": "colour",
                "enabled": True,
                "rules": rules,
                "type": "string",
                "variants": COLOURS,
                "defaultVariant": "blue",
                "offVariant": "green",
                "prerequisites": [{"flag": "base"}],
                "version": versions[1],
            },
        ],
        "segments": [{"key": "crowd", "conditions": [], "userIds": ["ada"]}],
    }


def test_ruleset__archived_flag__is_off_and_says_so(api: Any, production: Environment) -> None:
    FlagFactory(key="old", on=True)
    archive_flag(key="old", environment=production, actor=ACTOR, now=NOON)
    [flag] = data(get(api))["flags"]
    version = Change.objects.latest_revision()
    assert flag == {"key": "old", "enabled": False, "rules": [], "archived": True, "version": version}


def test_ruleset__other_environment__has_its_own(api: Any, staging_api: Any) -> None:
    FlagFactory(key="f", on=True)
    assert [flag["enabled"] for flag in data(get(api))["flags"]] == [True]
    assert [flag["enabled"] for flag in data(get(staging_api))["flags"]] == [False]
    assert data(get(staging_api))["environment"] == "staging"


@pytest.mark.usefixtures("db")
def test_ruleset__after_random_changes__decides_for_everyone_as_the_service_does() -> None:
    changes = RandomChanges(seed=11)
    for _ in range(300):
        changes.make()
    compiled.load()
    for key in ("production", "staging"):
        own = configuration(key)
        sent = orjson.loads(rulesets.ruleset(key).plain)["data"]
        theirs = Configuration(
            {flag["key"]: compile_flag(flag) for flag in sent["flags"]},
            {segment["key"]: compile_segment(segment) for segment in sent["segments"]},
        )
        assert len(theirs.flags) > 5
        for at in range(100):
            user = (f"user-{at}", {"plan": ("free", "pro")[at % 2], "age": at, "country": "CH"})
            for flag in own.flags:
                answers = [evaluate(rules.flags[flag], Context(*user, rules, changes.at)) for rules in (own, theirs)]
                assert answers[0] == answers[1]


# --- what has not changed is not sent again --------------------------------------------------------------------------


def test_ruleset__known_already__is_not_sent_again(api: Any) -> None:
    FlagFactory(key="f")
    first = get(api)
    for tags in (first["ETag"], first["ETag"].removeprefix("W/"), f'"other", {first["ETag"]}', "*"):
        again = get(api, if_none_match=tags)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])


def test_ruleset__not_known_or_unreadable_tag__is_sent(subtests: pytest.Subtests, api: Any) -> None:
    FlagFactory(key="f")
    for tags in ['"other"', "", "production-1", '"production-1']:
        with subtests.test(tags=tags):
            assert get(api, if_none_match=tags).status_code == 200


def test_ruleset__after_a_change_here__is_sent_again_and_after_one_elsewhere_not(api: Any, staging_api: Any) -> None:
    FlagFactory(key="f")
    etag, staging_etag = get(api)["ETag"], get(staging_api)["ETag"]
    assert api.patch("/v1/flags/f", {"enabled": True}).status_code == 200
    changed = get(api, if_none_match=etag)
    assert data(changed)["flags"][0]["enabled"] is True
    assert changed["ETag"] != etag
    assert get(staging_api, if_none_match=staging_etag).status_code == 304


# --- gzip ------------------------------------------------------------------------------------------------------------


def test_ruleset__for_who_accepts_it__comes_as_gzip(subtests: pytest.Subtests, api: Any) -> None:
    FlagFactory(key="f")
    for accepted in ["gzip", "br;q=1.0, GZIP;q=0.5", "*", "deflate,gzip ; q=0.001", "gzip;q=1"]:
        with subtests.test(accepted=accepted):
            zipped = get(api, accept_encoding=accepted)
            assert zipped["Content-Encoding"] == "gzip"
            assert gzip.decompress(zipped.content) == get(api).content
            assert "Accept-Encoding" in zipped["Vary"]


def test_ruleset__for_who_does_not__comes_as_it_is(subtests: pytest.Subtests, api: Any) -> None:
    for accepted in ["", "identity", "gzip;q=0", "gzip;q=0.000", "br", "xgzip"]:
        with subtests.test(accepted=accepted):
            answer = get(api, accept_encoding=accepted)
            assert "Content-Encoding" not in answer
            assert "Accept-Encoding" in answer["Vary"]
            assert data(answer)["flags"] == []


# --- requests ---------------------------------------------------------------------------------------------------------


def test_ruleset__client_key__is_refused(client_of: Any) -> None:
    client, server = client_of(Scope.CLIENT), client_of(Scope.SERVER)
    error(get(client), 403, "forbidden")
    assert get(server).status_code == 200


def test_ruleset__parameter_or_body__is_refused(api: Any) -> None:
    assert error(api.get("/v1/ruleset?all=true"), 400, "invalid_parameter")["details"][0]["field"] == "all"
    error(api.generic("GET", "/v1/ruleset", b'{"a": 1}', "application/json"), 400, "validation_failed")
    error(api.post("/v1/ruleset", {}), 405, "method_not_allowed")


def test_ruleset__asked_for_again__reads_no_database(api: Any, django_assert_num_queries: Any) -> None:
    FlagFactory.create_batch(3)
    get(api)
    with django_assert_num_queries(0):
        get(api)
