"""Bodies: compressed ones, and how much of one is read before it is refused."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from config.api.bodies import decode, expand, read
from config.errors import DomainError, ErrorCode
from tests.config.api.conftest import World
from tests.config.api.malformed.cases import OPERATIONS
from tests.config.api.wire import Answer, failure, send
from tests.transactions import case_undone

GZIP = {"Content-Encoding": "gzip"}
MOST = 5 * 1024**2
USER = b'{"context": {"targetingKey": "u"}}'


def post(world: World, path: str, body: bytes, encoding: str = "gzip", **headers: str) -> Answer:
    return send("POST", path, body, {"Content-Encoding": encoding, **headers}, key=world.key)


def refused(act: Callable[[], Any]) -> tuple[ErrorCode, str]:
    with pytest.raises(DomainError) as caught:
        act()
    return caught.value.code, caught.value.message


# --- compressed ------------------------------------------------------------------------------------------------------


def test_body__compressed__is_taken_by_every_operation(subtests: pytest.Subtests, world: World) -> None:
    for operation in OPERATIONS:
        with subtests.test(operation=operation), case_undone():
            body = gzip.compress(json.dumps(operation.body).encode())
            answer = send(operation.method, operation.path, body, GZIP, key=world.key)
            assert answer.status < 300, answer.body


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " x-gzip "])
def test_body__compressed__may_name_its_encoding_in_any_way(world: World, encoding: str) -> None:
    assert post(world, "/v1/flags/known/evaluate", gzip.compress(b'{"userId": "u"}'), encoding).status == 200


@pytest.mark.parametrize("encoding", ["identity", "Identity", "", " "])
def test_body__as_it_is__may_say_so(world: World, encoding: str) -> None:
    assert post(world, "/v1/flags/known/evaluate", b'{"userId": "u"}', encoding).status == 200


def test_body__compressed_in_chunks__is_taken(world: World) -> None:
    body = gzip.compress(b'{"userId": "u"}')
    chunked = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    assert post(world, "/v1/flags/known/evaluate", body, **chunked).status == 200
    assert post(world, "/v1/flags/known/archive", b"", **chunked).status == 200


def test_body__compressed__is_taken_by_openfeature_s_operations(world: World) -> None:
    for path in ("/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/known"):
        assert post(world, path, gzip.compress(USER)).status == 200
        for body, encoding in ((gzip.compress(USER), "br"), (gzip.compress(USER)[:-1], "gzip")):
            refusal = post(world, path, body, encoding)
            assert (refusal.status, "gzip" in refusal.json()["errorDetails"]) == (400, True)


def test_body__compressed_in_several_members__is_all_of_them(world: World) -> None:
    body = gzip.compress(b'{"userId":') + gzip.compress(b' "u"}')
    assert post(world, "/v1/flags/known/evaluate", body).status == 200


def test_body__of_another_encoding__is_refused_by_one_that_says_which_are_read(
    subtests: pytest.Subtests, world: World
) -> None:
    before = world.stored()
    for encoding in ["br", "deflate", "zstd", "compress", "gzip, gzip", "identity, gzip", "*", "\xfc"]:
        with subtests.test(encoding=encoding):
            error = failure(post(world, "/v1/flags", gzip.compress(b'{"key": "new"}'), encoding))
            assert error["code"] == "unsupported_media_type"
            assert "gzip" in error["message"]
            assert world.stored() == before


WHOLE = gzip.compress(b'{"key": "new", "description": "' + b"long" * 1000 + b'"}')


def test_body__not_gzip_as_it_says__is_malformed(subtests: pytest.Subtests, world: World) -> None:
    before = world.stored()
    for body in [
        WHOLE[:-1],
        WHOLE[:20],
        WHOLE[:5],
        b'{"key": "new"}',
        zlib.compress(b'{"key": "new"}'),
        WHOLE[:30] + b"\xff\xff\xff" + WHOLE[33:],
        WHOLE[:-8] + b"\0" * 8,
        WHOLE + b"more",
        gzip.compress(b""),
        gzip.compress(b"{"),
        gzip.compress(gzip.compress(b'{"key": "new"}')),
    ]:  # fmt: skip
        with subtests.test(body=body):
            assert failure(post(world, "/v1/flags", body))["code"] == "malformed_json"
            assert world.stored() == before


# --- size ------------------------------------------------------------------------------------------------------------


class CountingStream(io.BytesIO):
    """A body that knows how much of it was read."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.read_so_far = getattr(self, "read_so_far", 0) + len(found)
        return found


def test_read__one_byte_too_many_announced__reads_nothing() -> None:
    stream = CountingStream(b"x" * (MOST + 1))
    assert refused(lambda: read(stream, MOST + 1))[0] is ErrorCode.BODY_TOO_LARGE
    assert not hasattr(stream, "read_so_far")


def test_read__too_many_unannounced__reads_one_more_than_may_be() -> None:
    stream = CountingStream(b"x" * (2 * MOST))
    assert refused(lambda: read(stream, 0))[0] is ErrorCode.BODY_TOO_LARGE
    assert stream.read_so_far == MOST + 1


def test_read__as_many_as_may_be__are_read() -> None:
    assert len(read(io.BytesIO(b"x" * MOST), MOST)) == MOST


def test_expand__as_many_as_may_be__are_expanded_and_one_more_is_refused() -> None:
    assert expand(gzip.compress(b"x" * MOST)) == b"x" * MOST
    code, message = refused(lambda: expand(gzip.compress(b"x" * (MOST + 1))))
    assert (code, "5 MiB" in message) == (ErrorCode.BODY_TOO_LARGE, True)


def test_expand__bomb__costs_no_more_memory_than_a_body() -> None:
    bomb = gzip.compress(b"\0" * (100 * 1024**2), 9)
    tracemalloc.start()
    try:
        assert refused(lambda: expand(bomb))[0] is ErrorCode.BODY_TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MOST


# --- integers --------------------------------------------------------------------------------------------------------


def test_decode__number_that_can_be_stored__is_not_suspect() -> None:
    for number in [2**64 - 1, -(2**63), 1234567890123456789, 1e300, 0.1]:
        body = decode(orjson.dumps({"n": number}))
        assert (body.value, body.is_suspect) == ({"n": number}, False), number


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**40])
def test_decode__integer_beyond_64_bits__is_kept_and_suspect(number: int) -> None:
    body = decode(json.dumps({"n": number}).encode())
    assert body.is_suspect
    assert body.value["n"] > 2**63 or body.value["n"] < -(2**63)
