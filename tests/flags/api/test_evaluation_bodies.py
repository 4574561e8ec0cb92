"""Bodies that are decoded in one pass: the same are accepted as with DRF's checks, with the same result."""

from __future__ import annotations

import msgspec

from config.api.bodies import UserRequest, check, convert, decode, decode_flat
from flags.api.evaluation_serializers import EvaluationsRequest

SIMPLE = [
    b'{"userId": "u"}',
    b' {"attributes":{"plan":"pro","age":30,"score":1.5,"beta":true,"none":null},"userId":"u"} ',
    b'{"userId": "u", "attributes": {"least": -9223372036854775808, "most": 18446744073709551615}}',
    rb'{"userId": "\ud83d\ude00", "attributes": {"\u00e9": "\t"}}',
]
HARD = [
    b'{"userId": "u", "attributes": {}}',
    b'{"userId": "a:b"}',
    b'{"userId": "u", "attributes": {"list": ["a"]}}',
    b'{"userId": "u", "attributes": {"object": {}}}',
    b'{"userId": "u", "attributes": {"object": {"a": 1}}}',
]
WRONG = [
    b'{"userId": "u", "userId": "u"}',
    b'{"userId": "u", "attributes": {"a": 1, "a": 2}}',
    b'{"userId": "u", "attributes": {"a": 1}, "attributes": {"a": 1}}',
    b'{"userId": "u", "attributes": {}, "attributes": {"a": 1}}',
    b'{"userId": "u", "attributes": {"a": 18446744073709551616}}',
    b'{"userId": "u", "attributes": {"a": -9223372036854775809}}',
    b'{"userId": "u", "attributes": {"a": [18446744073709551616]}}',
    b'{"userId": "u", "attributes": {"a": NaN}}',
    b'{"userId": "u", "attributes": {"a": 1e400}}',
    rb'{"userId": "u\u0000"}',
    rb'{"userId": "\ud800"}',
    b'{"userId": ""}',
    b'{"userId": 1}',
    b'{"userId": "u", "x": 1}',
    b"[]",
    b"{",
]


def with_flags(body: bytes) -> bytes:
    return body.replace(b'{"userId"', b'{"flags": ["f", "g"], "userId"', 1)


def test_decode_flat__simple_body__is_what_it_is() -> None:
    for to in [UserRequest, EvaluationsRequest]:
        for body in SIMPLE:
            decoded = decode_flat(body, msgspec.json.Decoder(to))
            assert decoded is not None, (to, body)
            assert decoded == convert(check(decode(body)), to), (to, body)


def test_decode_flat__any_other_body__is_left_to_the_careful_way() -> None:
    for body in [*HARD, *WRONG]:
        assert decode_flat(body, msgspec.json.Decoder(UserRequest)) is None, body
        assert decode_flat(body, msgspec.json.Decoder(EvaluationsRequest)) is None, body
        assert decode_flat(with_flags(body), msgspec.json.Decoder(EvaluationsRequest)) is None, body


def test_decode_flat__flags__are_counted() -> None:
    several = msgspec.json.Decoder(EvaluationsRequest)
    decoded = decode_flat(with_flags(SIMPLE[0]), several)
    assert decoded is not None
    assert decoded.flags == ["f", "g"]
    assert decode_flat(b'{"userId": "u", "flags": ["f"], "flags": ["f"]}', several) is None
    assert decode_flat(b'{"userId": "u", "flags": ["f", "f"]}', several) is None
