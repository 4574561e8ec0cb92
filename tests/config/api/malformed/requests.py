"""Rows: paths, methods and headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

from tests.config.api.malformed.cases import (
    ARCHIVE,
    BATCH,
    CREATE_FLAG,
    DRAFT,
    EVALUATE,
    EVALUATE_ALL,
    EXPLAIN,
    FLAG,
    METRIC,
    PREVIEW,
    RESTORE,
    REVERT,
    RUNNING,
    SEGMENT,
    START,
    STOP,
    VARIANT,
    Case,
)


def paths_and_methods() -> Iterator[Case]:
    missing = {"status": 404, "code": "not_found"}
    for target in ("/v1", "/v1/", "/v1/flag", "/v1/flags/", "/v1/flags/known/", "/v1/flags/known/toggle", "/v1//flags",
                   "/v1/flags/known/evaluate/", "/v1/events/1", "/v1/%00", "/v1/%FF%FE", "/v1/flags/a/b"):  # fmt: skip
        yield Case(f"no such path: {target}", "GET", target, **missing)
    keys = {
        "U+0000": "%00",
        "invalid UTF-8": "%FF",
        "long": "k" * 2000,
        "another case": "KNOWN",
        "a newline": "known%0A",
    }
    user = b'{"userId": "u"}'
    for name, key in keys.items():
        flag = {"status": 404, "code": "flag_not_found"}
        yield Case(f"get flag: key is {name}", "GET", f"/v1/flags/{key}", **flag)
        yield Case(f"update flag: key is {name}", "PATCH", f"/v1/flags/{key}", b"{}", **flag)
        yield Case(f"delete flag: key is {name}", "DELETE", f"/v1/flags/{key}", **flag)
        yield Case(f"evaluate: key is {name}", "POST", f"/v1/flags/{key}/evaluate", user, **flag)
        yield Case(f"explain: key is {name}", "POST", f"/v1/flags/{key}/explain", user, **flag)
        yield Case(f"history: key is {name}", "GET", f"/v1/flags/{key}/history", **flag)
        yield Case(f"preview: key is {name}", "POST", f"/v1/flags/{key}/preview", b'{"enabled": true}', **flag)
        yield Case(f"usage: key is {name}", "GET", f"/v1/flags/{key}/usage", **flag)
        yield Case(f"archive: key is {name}", "POST", f"/v1/flags/{key}/archive", **flag)
        yield Case(f"restore: key is {name}", "POST", f"/v1/flags/{key}/restore", **flag)
        yield Case(f"revert: key is {name}", "POST", f"/v1/flags/{key}/revert", b'{"revision": 3}', **flag)
        yield Case(f"get segment: key is {name}", "GET", f"/v1/segments/{key}", **missing)
        yield Case(f"update segment: key is {name}", "PATCH", f"/v1/segments/{key}", b"{}", **missing)
        yield Case(f"delete segment: key is {name}", "DELETE", f"/v1/segments/{key}", **missing)
        yield Case(f"change users: key is {name}", "POST", f"/v1/segments/{key}/users", b'{"add": ["u"]}', **missing)
        yield Case(f"get metric: key is {name}", "GET", f"/v1/metrics/{key}", **missing)
        yield Case(f"update metric: key is {name}", "PATCH", f"/v1/metrics/{key}", b"{}", **missing)
        yield Case(f"delete metric: key is {name}", "DELETE", f"/v1/metrics/{key}", **missing)
        yield Case(f"get environment: key is {name}", "GET", f"/v1/environments/{key}", **missing)
        yield Case(f"update environment: key is {name}", "PATCH", f"/v1/environments/{key}", b"{}", **missing)
        yield Case(f"get key: id is {name}", "GET", f"/v1/keys/{key}", **missing)
        yield Case(f"update key: id is {name}", "PATCH", f"/v1/keys/{key}", b"{}", **missing)
        yield Case(f"revoke key: id is {name}", "POST", f"/v1/keys/{key}/revoke", **missing)
        experiment = {"status": 404, "code": "experiment_not_found"}
        yield Case(f"get experiment: key is {name}", "GET", f"/v1/experiments/{key}", **experiment)
        yield Case(f"results: key is {name}", "GET", f"/v1/experiments/{key}/results", **experiment)
        explain = f"/v1/experiments/{key}/results/explain?metric=buy&variant=a"
        yield Case(f"explain results: key is {name}", "GET", explain, **experiment)
        yield Case(f"update experiment: key is {name}", "PATCH", f"/v1/experiments/{key}", b"{}", **experiment)
        yield Case(f"delete experiment: key is {name}", "DELETE", f"/v1/experiments/{key}", **experiment)
        yield Case(f"start: key is {name}", "POST", f"/v1/experiments/{key}/start", **experiment)
        yield Case(f"stop: key is {name}", "POST", f"/v1/experiments/{key}/stop", **experiment)
        yield Case(f"variant: key is {name}", "POST", f"/v1/experiments/{key}/variant", user, **experiment)
    paths = {
        "/v1/flags": ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"),
        FLAG: ("PUT", "POST", "OPTIONS", "TRACE"),
        EVALUATE.path: ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"),
        EVALUATE_ALL.path: ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"),
        PREVIEW.path: ("GET", "PUT", "PATCH", "DELETE"),
        EXPLAIN.path: ("GET", "PUT", "DELETE"),
        ARCHIVE.path: ("GET", "PUT", "DELETE"),
        RESTORE.path: ("GET", "PUT", "DELETE"),
        REVERT.path: ("GET", "PUT", "DELETE"),
        f"{FLAG}/history": ("POST", "PUT", "DELETE"),
        f"{FLAG}/usage": ("POST", "PUT", "DELETE"),
        "/v1/segments": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        SEGMENT: ("PUT", "POST", "OPTIONS"),
        f"{SEGMENT}/users": ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"),
        "/v1/metrics": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        METRIC: ("PUT", "POST", "OPTIONS"),
        "/v1/audit": ("POST", "PUT", "DELETE", "OPTIONS"),
        "/v1/experiments": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        DRAFT: ("PUT", "POST", "OPTIONS"),
        f"{RUNNING}/results": ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
        f"{RUNNING}/results/explain": ("POST", "PUT", "DELETE"),
        START.path: ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"),
        STOP.path: ("GET", "PUT", "DELETE"),
        VARIANT.path: ("GET", "PUT", "DELETE"),
        "/v1/events": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        BATCH.path: ("GET", "PUT", "DELETE"),
        "/v1/environments": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        "/v1/environments/staging": ("PUT", "POST", "DELETE", "OPTIONS"),
        "/v1/keys": ("PUT", "PATCH", "DELETE", "OPTIONS"),
        f"/v1/keys/{UUID(int=1)}": ("PUT", "POST", "DELETE", "OPTIONS"),
        f"/v1/keys/{UUID(int=1)}/revoke": ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"),
        "/v1/schema": ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
    }
    for path, methods in paths.items():
        for method in methods:
            yield Case(f"{method} {path}", method, path, status=405, code="method_not_allowed")


def headers() -> Iterator[Case]:
    unsupported = {"status": 415, "code": "unsupported_media_type"}
    types = {
        "a form": "application/x-www-form-urlencoded",
        "text": "text/plain",
        "multipart": "multipart/form-data; boundary=x",
        "XML": "application/xml",
        "merge patch": "application/merge-patch+json",
        "latin-1": "application/json; charset=latin-1",
        "UTF-16": "application/json;charset=utf-16",
        "an unknown codec": "application/json; charset=base64",
        "a codec that only fails": "application/json; charset=undefined",
        "an unknown encoding": "application/json; charset*=nope'en'utf-8",
        "an unknown encoding of a parameter": "application/json; x*=nope'en'y",
        "a parameter in pieces that do not fit": "application/json; x*=*0*=;x*0*=utf-8'",
        "nonsense": ";;;",
        "not ASCII": "application/json; charset=\xfc",
        "missing": None,
    }
    for operation in (CREATE_FLAG, EVALUATE, START, BATCH):
        for name, value in types.items():
            headers = {"Content-Type": value}
            body = json.dumps(operation.body).encode()
            yield Case(
                f"{operation.name}: Content-Type is {name}",
                operation.method,
                operation.path,
                body,
                headers=headers,
                **unsupported,
            )
    for name, value in {"another version": '"999999"', "not quoted": "1", "weak": 'W/"1"', "empty": "",
                        "nonsense": '"', "not ASCII": "\xfc", "commas": ",,,"}.items():  # fmt: skip
        stale = {"status": 412, "code": "precondition_failed", "headers": {"If-Match": value}}
        yield Case(f"update flag: If-Match is {name}", "PATCH", FLAG, b'{"enabled": true}', **stale)
        yield Case(f"delete flag: If-Match is {name}", "DELETE", FLAG, **stale)
        yield Case(f"archive: If-Match is {name}", "POST", ARCHIVE.path, **stale)
        yield Case(f"restore: If-Match is {name}", "POST", RESTORE.path, **stale)
        yield Case(f"revert: If-Match is {name}", "POST", REVERT.path, b'{"revision": 3}', **stale)
        yield Case(f"update segment: If-Match is {name}", "PATCH", SEGMENT, b'{"userIds": []}', **stale)
        yield Case(f"delete segment: If-Match is {name}", "DELETE", SEGMENT, **stale)
        yield Case(f"update metric: If-Match is {name}", "PATCH", METRIC, b'{"windowHours": 24}', **stale)
        yield Case(f"delete metric: If-Match is {name}", "DELETE", METRIC, **stale)
    for name, value in {
        "1,001 characters": "x" * 1001,
        "U+0000": "%00",
        "not UTF-8": "\xfc",
        "empty": "",
        "blank": " ",
    }.items():
        refused = {"code": "invalid_parameter", "field": "X-Change-Reason", "headers": {"X-Change-Reason": value}}
        yield Case(f"update flag: reason is {name}", "PATCH", FLAG, b'{"enabled": true}', **refused)
        yield Case(f"delete segment: reason is {name}", "DELETE", SEGMENT, **refused)
        yield Case(f"delete metric: reason is {name}", "DELETE", METRIC, **refused)
        yield Case(f"start: reason is {name}", "POST", START.path, **refused)
    unauthenticated = {"status": 401, "code": "unauthenticated"}
    for name, value in {
        "Basic": "Basic dXNlcjpwYXNz",
        "empty": "",
        "Bearer alone": "Bearer",
        "Bearer and spaces": "Bearer   ",
        "an unknown key": "Bearer hyd_m_unknown",
        "the key alone": "hyd_m_unknown",
        "not ASCII": "Bearer \xfc\xff",
        "very long": "Bearer " + "k" * 100_000,
        "with U+0000": "Bearer a\x00b",
        "two keys": "Bearer a, Bearer b",
    }.items():
        yield Case(f"Authorization is {name}", "GET", "/v1/flags", headers={"Authorization": value}, **unauthenticated)
    for name, value in {
        "empty": "",
        "unknown": "hyd_m_unknown",
        "not ASCII": "\xfc",
        "very long": "k" * 100_000,
    }.items():
        headers = {"Authorization": None, "X-API-Key": value}
        yield Case(f"X-API-Key is {name}", "GET", "/v1/flags", headers=headers, **unauthenticated)
    for name, value in {"unknown": "prod", "that of another": "staging", "empty": "", "not ASCII": "\xfc"}.items():
        yield Case(
            f"X-Environment is {name}",
            "GET",
            "/v1/flags",
            headers={"X-Environment": value},
            code="invalid_parameter",
            field="X-Environment",
        )
    for value in ("evil.example", "testserver:x", "testserver@evil", "\xfc", "[::1"):
        headers = {"Host": value}
        yield Case(f"Host is {value!r}", "GET", "/v1/flags", headers=headers, code="invalid_parameter")
