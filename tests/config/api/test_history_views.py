"""The /v1/audit operation, as a client sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
import time_machine

from config.models import Change
from flags.changes.flag_changes import create_flag, update_flag
from tests.answers import data, error, next_page
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

LATER = NOON.replace(year=2099)  # a change is never before the one that it follows


def changes(client: Any, query: str = "") -> list[tuple[str, str, str]]:
    found = data(client.get(f"/v1/audit{query}"))
    return [(entry["action"], entry["object"]["kind"], entry["object"]["key"]) for entry in found]


def test_audit__of_everything__is_newest_first_and_says_all_of_each_write(api):
    FlagFactory(key="f")
    ExperimentFactory(key="e")
    data(api.post("/v1/segments", {"key": "s"}, HTTP_X_CHANGE_REASON="For e"), 201)
    entry = data(api.get("/v1/audit"))[0]
    assert (entry["actor"], entry["source"], entry["reason"]) == ("key manage of production", "api", "For e")
    assert entry["revision"] == Change.objects.latest_revision()
    assert "environment" not in entry
    assert changes(api)[:3] == [("created", "segment", "s"), ("created", "experiment", "e"), ("created", "flag", "f")]
    assert changes(api)[-1] == ("created", "environment", "production")


def test_audit__of_each_environment__leaves_out_what_is_another_s_own(api, staging_api):
    FlagFactory(key="f")
    data(staging_api.patch("/v1/flags/f", {"enabled": True}))
    ExperimentFactory(key="e")
    assert changes(api)[:2] == [("created", "experiment", "e"), ("created", "flag", "f")]
    assert changes(staging_api, "?object=flag") == [("changed", "flag", "f"), ("created", "flag", "f")]
    assert changes(staging_api, "?object=experiment") == []
    assert {key for _, kind, key in changes(api) if kind == "api_key"} == {"manage of production"}


def test_audit__filters__narrow_and_combine(api, production):
    for hour, key in enumerate(["f", "f.g", "f"]):
        at = {"now": LATER + timedelta(hours=hour), "actor": ACTOR, "environment": production}
        if hour == 2:
            update_flag(key=key, changes={"description": "new"}, **at)
        else:
            create_flag(key=key, **at)
    changed, second, first = ("changed", "flag", "f"), ("created", "flag", "f.g"), ("created", "flag", "f")
    assert changes(api, "?object=flag") == [changed, second, first]
    assert changes(api, "?object=flag/f") == [changed, first]
    assert changes(api, "?object=flag/f&from=2099-01-31T13:00:00Z") == [changed]
    assert changes(api, "?object=flag&to=2099-01-31T13:00:00Z") == [second, first]
    assert changes(api, "?object=flag&from=2099-01-31T13:00:00%2B00:00&to=2099-01-31") == [changed, second]
    assert changes(api, "?object=flag&actor=test") == [changed, second, first]
    assert changes(api, "?object=flag&actor=tes") == []
    assert changes(api, "?object=flag&source=command&limit=1") == [changed]
    assert changes(api, "?object=flag&source=api") == []


def test_audit__by_pages__gives_every_change_once(api):
    FlagFactory.create_batch(5)
    expected = changes(api)
    found, address = [], "/v1/audit?limit=3"
    while address:
        response = api.get(address)
        found += [(entry["action"], entry["object"]["kind"], entry["object"]["key"]) for entry in data(response)]
        address = next_page(response)
    assert found == expected


def test_audit__without_limit__is_the_newest_hundred(api):
    with time_machine.travel(NOON, tick=False):
        FlagFactory.create_batch(101)
    response = api.get("/v1/audit")
    assert len(data(response)) == 100
    assert next_page(response)


@pytest.mark.parametrize("count", [1, 12])
def test_audit__any_number_of_changes__takes_two_queries(api, django_assert_num_queries, count):
    FlagFactory.create_batch(count)
    api.get("/v1/audit")
    with django_assert_num_queries(2):
        assert len(data(api.get("/v1/audit?object=flag"))) == count


def test_audit__parameter_that_makes_no_sense__is_refused(subtests, api):
    for query, field in [
        ("object=flagg", "object"),
        ("object=/f", "object"),
        ("source=web", "source"),
        ("from=yesterday", "from"),
        ("actor=", "actor"),
        ("limit=101", "limit"),
        ("environment=staging", "environment"),
    ]:
        with subtests.test(query=query, field=field):
            assert error(api.get(f"/v1/audit?{query}"), 400, "invalid_parameter")["details"][0]["field"] == field


def test_audit__object_whose_key_has_spaces__is_found(api):
    assert changes(api, f"?object={quote('api_key/manage of production')}") == [
        ("created", "api_key", "manage of production")
    ]
