"""Requests for the operations of the fast lane: valid, odd and broken, with a seed for the same ones in every run."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.config.api.malformed import cases
from tests.config.api.malformed.cases import ID
from tests.config.serving.fast_lane.world import EXPERIMENTS, EXPOSED, FLAGS, USERS, World

HOSTS = ("testserver", "testserver:8000", "localhost", "evil.example", "", None, "TESTSERVER", "testserver.")
ORIGINS = ("https://shop.example", "https://evil.example", "null", "", "http://testserver", "not a url://[")
TYPES = ("application/json; charset=utf-8", 'application/json;charset="UTF-8"', "APPLICATION/JSON", "application/json ",
         "application/json; charset=latin-1", "application/json; x=y", None, "", "text/plain")  # fmt: skip
LENGTHS = ("", "0", "-1", "+2", "1", "9999", "007", "1e2", "٣", "12.0", "9" * 30, None)
METHODS = ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "post", "FOO")
QUERIES = ("?x=1", "?", "?flagConfigEtag=3", "?flagConfigEtag=999999", "?%ff", "?format=json")
HEADERS: tuple[Mapping[str, str | None], ...] = (
    {"X-Request-Id": "trace-1"}, {"X-Request-Id": ""}, {"X-Request-Id": "a b"}, {"X-Request-Id": "x" * 101},
    {"X-Environment": "production"}, {"X-Environment": "staging"}, {"X-Environment": "moon"}, {"X-Environment": ""},
    {"If-None-Match": "*"}, {"If-None-Match": '"x"'}, {"If-None-Match": ""}, {"If-Match": '"1"'},
    {"Cookie": "a=b"}, {"Cookie": "halyard_session=x"}, {"Cookie": ""}, {"Idempotency-Key": "k"},
    {"Idempotency-Key": ""}, {"Accept": "text/html"}, {"Accept": "nonsense"}, {"Accept-Encoding": "gzip"},
    {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}, {"Content-Encoding": "identity"},
    {"Expect": "100-continue"},
    {"Transfer-Encoding": "chunked"}, {"X-Forwarded-For": "10.0.0.1"}, {"Forwarded": "for=10.0.0.1"}, {"Via": "1.1 p"},
    {"X-Forwarded-Proto": "https"}, {"X-Forwarded-Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-origin"}, {"X-Change-Reason": "so"}, {"X-HTTP-Method-Override": "DELETE"},
    {"User-Agent": "curl/8"}, {"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"Referer": "https://shop.example/"}, {"Range": "bytes=0-1"}, {"X-Custom": "1"}, {"Content-Length": "5"},
)  # fmt: skip
FROM_TABLE = [case.headers for case in cases() if case.headers]
BODIES = [case.body for case in cases() if case.method == "POST" and 0 < len(case.body) < 100_000]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2.5, 2**63, 2**64, -(2**63) - 1, 10**40, "", "pro", "x" * 201, "\0", "\ud83d", "é",
    "🙂", [], {}, ["pro"], {"plan": {"of": "pro"}}, "2026-01-31T12:00:00Z", "yesterday", ID, [[[[]]]],
    {"a": {"a": {"a": 1}}},
)  # fmt: skip


class Request(NamedTuple):
    """A request as it comes off the wire. `is_secure` says that it came by TLS."""

    method: str
    target: str
    body: bytes
    headers: Mapping[str, str | None]
    address: str
    is_secure: bool


def generate(world: World, seed: int, count: int) -> list[Request]:
    chosen = random.Random(seed)
    return [_request(world, chosen) for _ in range(count)]


def _request(world: World, chosen: random.Random) -> Request:
    """Return a request that a client may well send, or with other chances anything."""
    path, value = chosen.choice(_OPERATIONS)(chosen)
    headers: dict[str, str | None] = {"Host": "testserver", "Content-Type": "application/json"}
    if chosen.random() < 0.4:
        headers["Authorization"] = f"Bearer {world.keys[chosen.choice(['client', 'server', 'manage', 'staging'])]}"
        return Request("POST", path, json.dumps(value).encode(), headers, "127.0.0.1", is_secure=False)
    headers |= _credentials(world, chosen) | _odd_headers(chosen)
    body = _body(chosen, value)
    if headers.get("Content-Encoding") == "gzip" and chosen.random() < 0.8:
        body = gzip.compress(body, mtime=0)
    method = "POST" if chosen.random() < 0.97 else chosen.choice(METHODS)
    target = path + (chosen.choice(QUERIES) if chosen.random() < 0.03 else "")
    address = "127.0.0.1" if chosen.random() < 0.9 else chosen.choice(["10.0.0.1", "::1", "", "nonsense"])
    return Request(method, target, body, headers, address, is_secure=chosen.random() < 0.2)


def _credentials(world: World, chosen: random.Random) -> dict[str, str | None]:
    kind = chosen.choice(["client"] * 6 + ["server", "manage", "staging", "expired", "revoked", "unknown", "none"])
    if kind == "none":
        return {}
    secret = world.keys.get(kind, "hyd_c_unknown")
    forms = [f"Bearer {secret}"] * 6 + [f"bearer  {secret} ", f"Basic {secret}", secret, f"Bearer {secret}, Bearer x"]
    if chosen.random() < 0.8:
        return {"Authorization": chosen.choice(forms)}
    return {"X-API-Key": secret, **({"Authorization": "Bearer x"} if chosen.random() < 0.1 else {})}


def _odd_headers(chosen: random.Random) -> dict[str, str | None]:
    headers: dict[str, str | None] = {}
    if chosen.random() < 0.1:
        headers["Host"] = chosen.choice(HOSTS)
    if chosen.random() < 0.2:
        headers["Origin"] = chosen.choice(ORIGINS)
    if chosen.random() < 0.1:
        headers["Content-Type"] = chosen.choice(TYPES)
    if chosen.random() < 0.3:
        headers |= chosen.choice(HEADERS if chosen.random() < 0.8 else FROM_TABLE)
    if chosen.random() < 0.05 and "Transfer-Encoding" not in headers:
        headers["Content-Length"] = chosen.choice(LENGTHS)
    return headers


# --- operations, each with a body that it accepts --------------------------------------------------------------------


def _key(chosen: random.Random, keys: Any) -> str:
    if chosen.random() < 0.95:
        return str(chosen.choice(list(keys)))
    return quote(chosen.choice(["KNOWN", "unknown", "a/b", "\0", ".", "..", "k" * 101, "é", "known\n", "a b", ""]))


def _attributes(chosen: random.Random) -> dict[str, Any]:
    attributes = {"plan": "pro"} if chosen.random() < 0.5 else {}
    if chosen.random() < 0.2:
        attributes[chosen.choice(["plan", "userId", "targetingKey", "flags", "é", ""])] = chosen.choice(VALUES)
    return attributes


def _user(chosen: random.Random) -> dict[str, Any]:
    user = {"userId": chosen.choice(USERS)}
    return {**user, "attributes": _attributes(chosen)} if chosen.random() < 0.6 else user


def _evaluate(chosen: random.Random) -> tuple[str, Any]:
    return f"/v1/flags/{_key(chosen, FLAGS)}/evaluate", _user(chosen)


def _evaluate_all(chosen: random.Random) -> tuple[str, Any]:
    user = _user(chosen)
    if chosen.random() < 0.5:
        user["flags"] = chosen.sample([*FLAGS, "unknown"], chosen.randint(1, 4))
    return "/v1/evaluate", user


def _ofrep_context(chosen: random.Random) -> dict[str, Any]:
    context = _attributes(chosen)
    if chosen.random() < 0.9:
        context["targetingKey"] = chosen.choice(USERS)
    return {"context": context}


def _ofrep(chosen: random.Random) -> tuple[str, Any]:
    return f"/ofrep/v1/evaluate/flags/{_key(chosen, FLAGS)}", _ofrep_context(chosen)


def _ofrep_all(chosen: random.Random) -> tuple[str, Any]:
    return "/ofrep/v1/evaluate/flags", _ofrep_context(chosen)


def _variant(chosen: random.Random) -> tuple[str, Any]:
    user = _user(chosen)
    if chosen.random() < 0.5:
        user["userId"] = chosen.choice(EXPOSED)
    return f"/v1/experiments/{_key(chosen, EXPERIMENTS)}/variant", user


def _event(chosen: random.Random) -> tuple[str, Any]:
    event: dict[str, Any] = {"event": chosen.choice(["buy", "view", "é"]), "userId": chosen.choice(USERS)}
    if chosen.random() < 0.4:
        event["id"] = ID
    if chosen.random() < 0.3:
        event["timestamp"] = chosen.choice(["2026-01-31T12:00:00Z", "2026-01-30", "2099-01-01T00:00:00+01:00"])
    if chosen.random() < 0.5:
        event["properties"] = {"experimentId": "running", "variant": "green", "revenue": 1.5, "currency": "EUR"}
    return "/v1/events", event


_OPERATIONS: tuple[Callable[[random.Random], tuple[str, Any]], ...] = (
    _evaluate, _evaluate, _evaluate_all, _ofrep, _ofrep_all, _variant, _event,
)  # fmt: skip


# --- bodies ----------------------------------------------------------------------------------------------------------


def _body(chosen: random.Random, value: dict[str, Any]) -> bytes:
    kind = chosen.random()
    if kind < 0.05:
        return chosen.choice(BODIES)
    if kind < 0.15:
        value = _mutated(chosen, value)
    text = json.dumps(value, ensure_ascii=chosen.random() < 0.5, indent=chosen.choice([None, None, 1]))
    raw = text.encode(errors="surrogatepass")
    if kind < 0.2:
        at = chosen.randrange(len(raw) + 1)
        comma, marked = raw[:at] + b"," + raw[at:], b"\xef\xbb\xbf" + raw
        raw = chosen.choice([raw[:at], comma, raw + b" ", marked, raw + raw, b" \n" + raw])
    if kind < 0.22:
        raw = raw.replace(b'"userId"', b'"userId": "twice", "userId"')
    return raw


def _mutated(chosen: random.Random, value: dict[str, Any]) -> dict[str, Any]:
    names = [*value, "userId", "context", "attributes", "extra"]
    mutated = {**value, chosen.choice(names): chosen.choice(VALUES)}
    if chosen.random() < 0.3:
        mutated.pop(chosen.choice(list(mutated)))
    return mutated
