"""`summary=true`: for whom a flag is on, in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.answers import data, error

pytestmark = pytest.mark.django_db

LATER = {"type": "percentage", "percentage": 100, "startAt": "2999-01-01T09:00:00Z"}


@pytest.fixture(autouse=True)
def flag(api: Any) -> None:
    """`f` starts in a far future, and `g`, which is off, needs it."""
    data(api.post("/v1/flags", {"key": "f", "enabled": True, "rules": [LATER]}), 201)
    data(api.post("/v1/flags", {"key": "g", "enabled": False, "prerequisites": [{"flag": "f"}]}), 201)


def test_flag__with_summary__says_from_when_it_is_on(api: Any) -> None:
    plain, shown = (data(api.get(f"/v1/flags/f{query}")) for query in ("", "?summary=true"))
    assert shown == {**plain, "summary": "on for everyone from 1 Jan 2999, 09:00 UTC"}
    assert data(api.get("/v1/flags/f?summary=false")) == plain


def test_list__with_summary__has_one_for_each_flag(api: Any) -> None:
    plain, shown = (data(api.get(f"/v1/flags{query}")) for query in ("", "?summary=true"))
    words = ["on for everyone from 1 Jan 2999, 09:00 UTC", "off"]
    assert shown == [{**flag, "summary": summary} for flag, summary in zip(plain, words, strict=True)]
    assert data(api.get("/v1/flags?summary=false")) == plain


def test_summary__of_a_flag_with_a_prerequisite_or_in_the_archive__says_so(api: Any) -> None:
    data(api.patch("/v1/flags/g", {"enabled": True}))
    assert data(api.get("/v1/flags/g?summary=true"))["summary"] == "on for everyone, requires f"
    data(api.post("/v1/flags/g/archive"))
    assert data(api.get("/v1/flags/g?summary=true"))["summary"] == "off: archived"
    [archived] = data(api.get("/v1/flags?summary=true&archived=true"))
    assert archived["summary"] == "off: archived"


def test_list__with_summary_and_stale__has_both(api: Any) -> None:
    data(api.patch("/v1/flags/f", {"expiresAt": "2025-01-01T00:00:00Z"}))
    [flag] = data(api.get("/v1/flags?summary=true&stale=true"))
    assert (flag["summary"], flag["staleReasons"]) == ("on for everyone from 1 Jan 2999, 09:00 UTC", ["expired"])
    [flag] = data(api.get("/v1/flags?stale=true"))
    assert "summary" not in flag


def test_list__with_summary__asks_no_more_of_the_database(api: Any, django_assert_max_num_queries: Any) -> None:
    api.get("/v1/flags")
    with django_assert_max_num_queries(1):
        api.get("/v1/flags?summary=true")


def test_flag__with_summary__has_a_tag_of_its_own_that_an_update_takes(api: Any) -> None:
    plain, shown = (api.get(f"/v1/flags/f{query}") for query in ("", "?summary=true"))
    assert plain["ETag"] != shown["ETag"]
    assert api.get("/v1/flags/f?summary=true", HTTP_IF_NONE_MATCH=shown["ETag"]).status_code == 304
    assert api.get("/v1/flags/f?summary=true", HTTP_IF_NONE_MATCH=plain["ETag"]).status_code == 200
    edited = {**data(shown), "description": "Edited", "summary": "on for 30 % now"}
    updated = data(api.patch("/v1/flags/f", edited, HTTP_IF_MATCH=shown["ETag"]))
    assert updated["description"] == "Edited"
    assert "summary" not in updated


def test_summary__anything_else__is_refused_with_its_name(subtests: pytest.Subtests, api: Any) -> None:
    for query in ["summary=yes", "summary=true&summary=true", "summary=", "summaries=true"]:
        with subtests.test(query=query):
            for path in ("/v1/flags", "/v1/flags/f"):
                [detail] = error(api.get(f"{path}?{query}"), 400, "invalid_parameter")["details"]
                assert detail["field"] == query.partition("=")[0]


def test_create__with_summary__is_refused(api: Any) -> None:
    error(api.post("/v1/flags", {"key": "h", "summary": "on"}), 400, "validation_failed")
