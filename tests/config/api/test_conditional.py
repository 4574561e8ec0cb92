"""Reading what one has already, writing what one has read, and keeping answers: ETags, 304, 412, `Cache-Control`."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.http import HttpResponsePermanentRedirect

from config.models import Environment
from tests.answers import data, error
from tests.config.api.conftest import World
from tests.config.api.wire import failure, send

VERSIONED = ["/v1/flags/known", "/v1/segments/listed", "/v1/metrics/defined", "/v1/experiments/draft"]
EXPERIMENTS = "/v1/experiments"
EVEN = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]


def test_read__of_the_version_that_the_caller_has__is_304(subtests: pytest.Subtests, world: World) -> None:
    for path in [*VERSIONED, "/v1/experiments/running"]:
        with subtests.test(path=path):
            first = send("GET", path, key=world.key)
            etag = first.headers["etag"]
            for named in (etag, f"W/{etag}", f'"x", {etag}', "*"):
                again = send("GET", path, headers={"If-None-Match": named}, key=world.key)
                assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
                assert "content-type" not in again.headers or not again.body
            other = send("GET", path, headers={"If-None-Match": '"0"'}, key=world.key)
            assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("path", VERSIONED)
def test_write__of_the_version_that_was_read__is_done_once(world: World, path: str) -> None:
    etag = send("GET", path, key=world.key).headers["etag"]
    body = b'{"description": "Other"}'
    changed = send("PATCH", path, body, {"If-Match": etag}, key=world.key)
    assert changed.status == 200
    assert changed.headers["etag"] not in ("", etag)
    stale = send("PATCH", path, body, {"If-Match": etag}, key=world.key)
    assert failure(stale)["code"] == "precondition_failed"
    assert failure(send("DELETE", path, headers={"If-Match": etag}, key=world.key))["code"] == "precondition_failed"
    read = send("GET", path, headers={"If-None-Match": etag}, key=world.key)
    assert (read.status, read.headers["etag"]) == (200, changed.headers["etag"])
    assert send("PATCH", path, body, {"If-Match": read.headers["etag"]}, key=world.key).status == 200


def test_segment_users__of_a_version_that_is_gone__stay(world: World) -> None:
    path = "/v1/segments/listed"
    stale = send("GET", path, key=world.key).headers["etag"]
    changed = send("POST", f"{path}/users", b'{"add": ["w"]}', {"If-Match": stale}, key=world.key)
    assert (changed.status, changed.json()) == (200, {"data": {"added": 1, "removed": 0, "total": 2}})
    again = send("POST", f"{path}/users", b'{"remove": ["w"]}', {"If-Match": stale}, key=world.key)
    assert failure(again)["code"] == "precondition_failed"
    assert send("GET", path, key=world.key).headers["etag"] == changed.headers["etag"]


# --- experiments -----------------------------------------------------------------------------------------------------


@pytest.fixture
def button(api: Any) -> str:
    """The path of a draft."""
    data(api.post(EXPERIMENTS, {"key": "button", "variants": EVEN, "metrics": ["buy"]}), 201)
    return f"{EXPERIMENTS}/button"


@pytest.mark.parametrize(
    ("before", "step", "body"),
    [
        ((), "start", None),
        (("start",), "stop", None),
        (("start",), "phases", {"percentage": 50, "reason": "so"}),
        (("start", "stop"), "reopen", None),
    ],
)
def test_step__of_a_version_that_is_gone__changes_nothing(
    api: Any, button: str, before: tuple[str, ...], step: str, body: dict[str, Any] | None
) -> None:
    for earlier in before:
        data(api.post(f"{button}/{earlier}"))
    stale = api.get(button)["ETag"]
    data(api.patch(button, {"description": "Other"}))
    seen = api.get(button)
    error(api.post(f"{button}/{step}", body, HTTP_IF_MATCH=stale), 412, "precondition_failed")
    assert data(api.get(button)) == data(seen)
    done = api.post(f"{button}/{step}", body, HTTP_IF_MATCH=seen["ETag"])
    assert done.status_code == (201 if step == "phases" else 200), done.json()
    assert api.get(button)["ETag"] == done["ETag"]


def test_experiment__created__has_the_etag_of_the_read_that_follows(api: Any) -> None:
    created = api.post(EXPERIMENTS, {"key": "button", "variants": EVEN})
    assert created["ETag"] == api.get(f"{EXPERIMENTS}/button")["ETag"]


def test_experiment__new_results__are_read_again_and_do_not_hinder_a_write(
    api: Any, production: Environment, button: str
) -> None:
    data(api.post(f"{button}/start"))
    read = api.get(button)
    assert data(api.post(f"{button}/variant", {"userId": "ada"}))["variant"] in "ab"
    again = api.get(button, HTTP_IF_NONE_MATCH=read["ETag"])
    assert sum(result["sampleSize"] for result in data(again)["results"].values()) == 1
    assert again["ETag"] != read["ETag"]
    assert api.get(button, HTTP_IF_NONE_MATCH=again["ETag"]).status_code == 304
    data(api.patch(button, {"description": "Other"}, HTTP_IF_MATCH=read["ETag"]))


def test_experiment__of_the_key_of_a_deleted_one__has_a_version_of_its_own(api: Any, button: str) -> None:
    stale = api.get(button)["ETag"]
    assert api.delete(button, HTTP_IF_MATCH=stale).status_code == 204
    data(api.post(EXPERIMENTS, {"key": "button", "variants": EVEN, "metrics": ["buy"]}), 201)
    error(api.delete(button, HTTP_IF_MATCH=stale), 412, "precondition_failed")


def test_metric__put_to_use__is_read_again(api: Any, button: str) -> None:
    data(api.post("/v1/metrics", {"key": "sell", "type": "conversion", "event": "sell"}), 201)
    read = api.get("/v1/metrics/sell")
    data(api.patch(button, {"metrics": ["sell"]}))
    again = api.get("/v1/metrics/sell", HTTP_IF_NONE_MATCH=read["ETag"])
    assert [use["experiment"] for use in data(again)["usedBy"]] == ["button"]
    data(api.patch("/v1/metrics/sell", {"description": "Other"}, HTTP_IF_MATCH=read["ETag"]))


# --- keeping answers -------------------------------------------------------------------------------------------------


def test_answer__is_kept_by_its_caller_alone_or_by_nobody(subtests: pytest.Subtests, world: World) -> None:
    for method, path, body, kept in [
        *(("GET", path, b"", True) for path in VERSIONED),
        ("GET", "/v1/ruleset", b"", True),
        ("GET", "/v1/flags", b"", False),
        ("GET", "/v1/events", b"", False),
        ("GET", "/v1/nowhere", b"", False),
        ("POST", "/v1/flags/known/evaluate", b'{"userId": "u"}', False),
        ("POST", "/ofrep/v1/evaluate/flags", b'{"context": {"targetingKey": "u"}}', True),
        ("DELETE", "/v1/flags/known", b"", False),
    ]:
        with subtests.test(method=method, path=path):
            answer = send(method, path, body, key=world.key)
            assert answer.headers["cache-control"] == ("private, no-cache" if kept else "no-store")
            if kept:
                varies_by = {name.strip() for name in answer.headers["vary"].split(",")}
                assert varies_by >= {"Authorization", "Cookie", "X-API-Key", "X-Environment"}


def test_redirect__of_a_request_with_a_body__keeps_method_and_body(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("django.middleware.security.SecurityMiddleware.process_request", _to_https)
    assert send("POST", "/v1/flags", b"{}", key=world.key).status == 308
    assert send("GET", "/v1/flags", key=world.key).status == 301


def _to_https(_middleware: Any, request: Any) -> Any:
    return HttpResponsePermanentRedirect(f"https://testserver{request.get_full_path()}")


# --- the OpenAPI document --------------------------------------------------------------------------------------------


def test_schema__in_the_form_asked_for__comes_small_and_once(subtests: pytest.Subtests, db: None) -> None:
    for accept, kind, start in [
        (None, "application/vnd.oai.openapi", b"openapi: 3.1.0\n"),
        ("*/*", "application/vnd.oai.openapi", b"openapi: 3.1.0\n"),
        ("application/json, */*", "application/vnd.oai.openapi+json", b'{"openapi":"3.1.0"'),
        ("application/vnd.oai.openapi+json", "application/vnd.oai.openapi+json", b'{"openapi":"3.1.0"'),
        ("application/vnd.oai.openapi", "application/vnd.oai.openapi", b"openapi: 3.1.0\n"),
    ]:
        with subtests.test(accept=accept, kind=kind):
            headers = {"Accept": accept}
            plain = send("GET", "/v1/schema", headers=headers)
            zipped = send("GET", "/v1/schema", headers={**headers, "Accept-Encoding": "gzip"})
            assert (plain.status, plain.headers["content-type"]) == (200, kind)
            assert plain.body.startswith(start)
            assert gzip.decompress(zipped.body) == plain.body
            assert len(zipped.body) < len(plain.body) / 6
            assert zipped.headers["content-encoding"] == "gzip"
            assert {name.strip() for name in plain.headers["vary"].split(",")} == {"Accept", "Accept-Encoding"}
            again = send("GET", "/v1/schema", headers={**headers, "If-None-Match": zipped.headers["etag"]})
            assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "DELETE"])
def test_schema__by_another_method__says_which_are_right(db: None, method: str) -> None:
    answer = send(method, "/v1/schema")
    assert failure(answer)["code"] == "method_not_allowed"
    assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "HEAD"}


def test_schema__with_a_parameter__is_refused(db: None) -> None:
    assert failure(send("GET", "/v1/schema?format=json"))["code"] == "invalid_parameter"


@pytest.mark.parametrize("path", ["//v1/flags", "///v1/flags", "/v1//flags", "//ofrep/v1/evaluate/flags"])
def test_path__with_slashes_too_many__is_refused_in_the_shape_of_the_api(db: None, path: str) -> None:
    answer = send("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/json")
    assert answer.json().keys() == ({"errorDetails"} if "ofrep" in path else {"error"})
