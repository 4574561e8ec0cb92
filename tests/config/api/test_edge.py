"""What every answer has, wherever it was made: the id of the request, JSON, the envelope."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from tests.answers import data, error
from tests.config.api.conftest import World
from tests.config.api.malformed.cases import LISTS
from tests.config.api.wire import failure, send
from tests.factories import FlagFactory
from tests.transactions import case_undone

ANSWERS = [
    ("GET", "/v1/flags", b"", {}, 200),
    ("POST", "/v1/flags", b'{"key": "new"}', {}, 201),
    ("POST", "/v1/events", b'{"event": "view", "userId": "u"}', {}, 202),
    ("DELETE", "/v1/flags/known", b"", {}, 204),
    ("POST", "/v1/flags", b"{", {}, 400),
    ("GET", "/v1/flags", b"", {"Host": "evil.example"}, 400),
    ("GET", "/v1/flags", b"", {"Authorization": "Bearer x"}, 401),
    ("GET", "/v1/flags", b"", {"Authorization": None}, 401),
    ("GET", "/v1/nowhere", b"", {}, 404),
    ("GET", "/v1", b"", {}, 404),
    ("PUT", "/v1/flags", b"", {}, 405),
    ("POST", "/v1/experiments/draft/stop", b"", {}, 409),
    ("PATCH", "/v1/flags/known", b"{}", {"If-Match": '"0"'}, 412),
    ("POST", "/v1/flags", b"x" * (5 * 1024**2 + 1), {}, 413),
    ("POST", "/v1/flags", b"{}", {"Content-Type": "text/plain"}, 415),
    ("OPTIONS", "/v1/events", b"", {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}, 200),
]


def test_answer__of_any_kind__carries_an_id_of_its_own(subtests: pytest.Subtests, world: World):
    for method, target, body, headers, status in ANSWERS:
        with subtests.test(method=method, target=target), case_undone():
            first, second = (send(method, target, body, headers, key=world.key) for _ in range(2))
            assert first.status == status
            assert UUID(first.headers["x-request-id"]).version == 7
            assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_answer__to_a_request_with_an_id__carries_that(subtests: pytest.Subtests, world: World):
    for method, target, body, headers, status in ANSWERS:
        with subtests.test(method=method, target=target):
            answer = send(method, target, body, {**headers, "X-Request-Id": "trace-1.2_3"}, key=world.key)
            assert answer.headers["x-request-id"] == "trace-1.2_3"
            if status >= 400:
                assert failure(answer)["requestId"] == "trace-1.2_3"


def test_answer__whatever_encodings_are_accepted__is_in_none(subtests: pytest.Subtests, world: World, settings: Any):
    for is_debug in [True, False]:
        for method, target, body, headers, status in ANSWERS:
            with subtests.test(is_debug=is_debug, method=method, target=target), case_undone():
                settings.DEBUG = is_debug  # whose pages about failures are long enough to be compressed
                answer = send(method, target, body, {**headers, "Accept-Encoding": "gzip"}, key=world.key)
                assert "content-encoding" not in answer.headers
                assert answer.status == status


def test_request_id__that_could_do_harm__is_replaced(subtests: pytest.Subtests, world: World):
    for sent in ["", "a b", "a\nb", "<script>", "x" * 101, "\xfc", '"', "é"]:
        with subtests.test(sent=sent):
            answer = send("GET", "/v1/flags", headers={"X-Request-Id": sent}, key=world.key)
            assert UUID(answer.headers["x-request-id"])


def test_answer__whatever_accept_says__is_json(subtests: pytest.Subtests, world: World):
    for accept in [None, "*/*", "text/html", "application/xml;q=1", "application/json;version=9", "x", ""]:
        for method, target, body, headers, status in ANSWERS:
            with subtests.test(accept=accept, method=method, target=target), case_undone():
                answer = send(method, target, body, {**headers, "Accept": accept}, key=world.key)
                assert answer.status == status
                if status == 204 or method == "OPTIONS":
                    assert answer.body == b""
                elif status >= 400:
                    failure(answer)
                else:
                    assert answer.headers["content-type"] == "application/json"
                    assert answer.json().keys() == {"data"}


def test_wrong_method__says_which_are_right(subtests: pytest.Subtests, world: World):
    for method, target, allowed in [
        ("PUT", "/v1/flags", {"GET", "HEAD", "POST"}),
        ("POST", "/v1/flags/known", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("GET", "/v1/flags/known/evaluate", {"POST"}),
        ("GET", "/v1/events/batch", {"POST"}),
        ("OPTIONS", "/v1/experiments/draft/start", {"POST"}),
    ]:
        with subtests.test(method=method, target=target):
            answer = send(method, target, key=world.key)
            failure(answer)
            assert set(re.split(r",\s*", answer.headers["allow"])) == allowed


def test_unknown_path__without_a_key__is_not_found(db):
    answer = send("GET", "/v1/nowhere")
    assert answer.status == 404
    assert failure(answer)["code"] == "not_found"


def test_path_outside_of_the_api__is_django_s_own(db):
    answer = send("GET", "/nowhere")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (404, "text/html")
    assert UUID(answer.headers["x-request-id"])


def test_read__with_no_body_or_an_empty_object__is_the_same(subtests: pytest.Subtests, world: World):
    for path in [*LISTS, "/v1/flags/known", "/v1/experiments/draft"]:
        for body in [b"", b"{}"]:
            with subtests.test(path=path, body=body):
                assert send("GET", path, body, key=world.key).status == 200


def test_body__of_json_in_utf_8__is_read_however_that_is_written(subtests: pytest.Subtests, world: World):
    body = '{"userId": "schöne Grüße 🙂"}'.encode()
    for content_type in [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json; charset=utf8; x=y",
        "application/json; profile=x",
        "application/json;",
    ]:
        with subtests.test(content_type=content_type):
            answer = send("POST", "/v1/flags/known/evaluate", body, {"Content-Type": content_type}, key=world.key)
            assert answer.json() == {"data": {"enabled": False, "reason": "disabled"}}


def test_query_string__is_utf_8_whatever_charset_says(subtests: pytest.Subtests, world: World):
    for charset in ["base64", "hex", "undefined", "utf-16", "idna", "rot13"]:
        with subtests.test(charset=charset):
            headers = {"Content-Type": f"application/json; charset={charset}"}
            answer = send("GET", "/v1/flags?search=kn%6fwn&limit=1", headers=headers, key=world.key)
            assert [flag["key"] for flag in answer.json()["data"]] == ["known"]


def test_content_type__that_cannot_be_parsed__does_not_matter_without_a_body(subtests: pytest.Subtests, world: World):
    for text in ["a/b; x*=nope'en'y", "a/b; x*0*=idna'\xfc'y", "a/b; x*=*0*=;x*0*=utf-8'", ";", "\xfc"]:
        with subtests.test(text=text), case_undone():
            assert send("GET", "/v1/flags", headers={"Content-Type": text}, key=world.key).status == 200
            assert (
                send("POST", "/v1/experiments/draft/start", headers={"Content-Type": text}, key=world.key).status == 200
            )


@pytest.mark.parametrize("size", [0, 1, 5 * 1024**2])
def test_body__in_chunks__is_read(world: World, size):
    start = b'{"userId": "u", "attributes": {"text": "'
    body = start + b"x" * (size - len(start) - 3) + b'"}}'
    answer = send("POST", "/v1/flags/known/evaluate", body, {"Transfer-Encoding": "chunked"}, key=world.key)
    assert answer.status == 200, answer.body


def test_body__that_only_looks_suspicious__is_accepted(subtests: pytest.Subtests, world: World):
    for body in [
        b'{"userId":"u","attributes":{"a:b":"c:d","e":"\\":\\":"}}',
        b'{"userId" : "u" , "attributes" : { "a" : "\\u003a" } }',
        b'\n\t {"userId":"\\ud83d\\ude42","attributes":{"a":{"a":{"a":1}}}}  ',
        b'{"userId":"u","attributes":{"n":[1234567890123456789,18446744073709551615,-9223372036854775808,1.5e300]}}',
        b'{"userId":"u","attributes":{"deep":' + b"[" * 60 + b"]" * 60 + b"}}",
        b'{"userId":"u","attributes":{"many":[' + b"{}," * 500 + b"{}]}}",
    ]:
        with subtests.test(body=body):
            assert send("POST", "/v1/flags/known/evaluate", body, key=world.key).status == 200


def test_details__many_and_long__stay_a_small_answer(world: World):
    body = b"{" + b",".join(b'"%s%d": 1' % (b"x" * 400, at) for at in range(10_000)) + b"}"
    answer = send("POST", "/v1/flags", body, key=world.key)
    details = failure(answer)["details"]
    assert len(details) == 100
    assert max(len(detail["field"]) for detail in details) == 300
    assert len(answer.body) < 100_000


def test_link__of_a_page__is_an_address_that_works(api: Any):
    FlagFactory.create_batch(3)
    response = api.get("/v1/flags?search=flag&limit=2")
    address = response["Link"].partition(">")[0].removeprefix("<")
    assert address.startswith("http://testserver/v1/flags?")
    assert len(data(api.get(address))) == 1
    error(api.get(address + "x"), 400, "invalid_parameter")
