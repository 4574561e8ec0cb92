"""Rows: what no body of any operation may be, and what no field may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.config.api.malformed.cases import (
    BATCH,
    CREATE_EXPERIMENT,
    CREATE_FLAG,
    CREATE_METRIC,
    CREATE_SEGMENT,
    DRAFT,
    EVALUATE,
    EVALUATE_ALL,
    EXPLAIN,
    FLAG,
    FORM,
    METRIC,
    OPERATIONS,
    PREVIEW,
    REVERT,
    SEGMENT,
    STOP,
    TRACK,
    UPDATE_EXPERIMENT,
    UPDATE_FLAG,
    UPDATE_METRIC,
    UPDATE_SEGMENT,
    VARIANT,
    Case,
)


def bodies() -> Iterator[Case]:
    """What is wrong with a body whichever operation it is sent to."""
    malformed = {
        "truncated": b'{"key": "new"',
        "no JSON": b"key=new",
        "single quotes": b"{'key': 'new'}",
        "a comma too many": b'{"key": "new",}',
        "two documents": b"{} {}",
        "spaces only": b" \n",
        "invalid UTF-8": b'{"key": "\xff\xfe"}',
        "a surrogate in UTF-8": b'{"key": "\xed\xa0\x80"}',
        "UTF-16": '{"key": "new"}'.encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf{}",
        "a raw control character": b'{"key": "a\x00b"}',
        "100,000 arrays deep": b"[" * 100_000 + b"]" * 100_000,
        "100,000 objects deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "100,000 brackets never closed": b"[" * 100_000,
    }
    wrong = {
        "an array": b"[]",
        "an array of objects": b'[{"userId": "u"}]',
        "a string": b'"text"',
        "a number": b"1",
        "null": b"null",
        "true": b"true",
    }
    for operation in (CREATE_FLAG, UPDATE_EXPERIMENT, EVALUATE, STOP, TRACK, BATCH):
        for name, body in malformed.items():
            yield Case(
                f"{operation.name}: body is {name}", operation.method, operation.path, body, code="malformed_json"
            )
    for operation in OPERATIONS:
        for name, body in wrong.items():
            yield Case(f"{operation.name}: body is {name}", operation.method, operation.path, body, field="body")
        yield Case(
            f"{operation.name}: unknown field",
            operation.method,
            operation.path,
            json.dumps({**operation.body, "enabledd": True}).encode(),
            field="enabledd",
        )
        yield Case(
            f"{operation.name}: unknown parameter",
            operation.method,
            f"{operation.path}?dryRun=1",
            json.dumps(operation.body).encode(),
            code="invalid_parameter",
            field="dryRun",
        )


def values() -> Iterator[Case]:
    """What no field of any operation may hold, sent inside one that takes any JSON, or as a field that nobody knows."""
    values = {
        "NaN": (b"NaN", ""),
        "Infinity": (b"Infinity", ""),
        "-Infinity": (b"-Infinity", ""),
        "1e400": (b"1e400", ""),
        "-1e400": (b"-1e400", ""),
        "an integer of 40 digits": (b"1" * 40, ""),
        "a negative integer of 40 digits": (b"-" + b"1" * 40, ""),
        "an integer of 5,000 digits": (b"9" * 5_000, ""),
        "2 to the 64th": (b"18446744073709551616", ""),
        "U+0000": (rb'"a\u0000b"', ""),
        "a high surrogate": (rb'"\ud83d"', ""),
        "a low surrogate": (rb'"x\ude00"', ""),
        "surrogates the wrong way round": (rb'"\ude00\ud83d"', ""),
        "U+0000 in a name": (rb'{"a\u0000b": 1}', ""),
        "a surrogate in a name": (rb'{"\ud83d": 1}', ""),
        "a name twice": (b'{"a": 1, "a": 2}', ".a"),
        "a name twice, once escaped": (rb'{"a": 1, "\u0061": 2}', ".a"),
        "a name twice beside an escaped colon": (rb'{"a": 1, "a": "\u003a"}', ".a"),
        "a name twice, spaced": (b'{"a" : 1, "a": 2}', ".a"),
        "70 levels": (b"[" * 70 + b"]" * 70, "[0]" * 62),
        "300 levels": (b"[" * 300 + b"]" * 300, "[0]" * 62),
    }
    for name, (value, inner) in values.items():
        for operation in (EVALUATE, VARIANT):
            yield Case(
                f"{operation.name}: an attribute is {name}",
                "POST",
                operation.path,
                b'{"userId": "u", "attributes": {"x": ' + value + b"}}",
                field=f"attributes.x{inner}",
            )
        yield Case(
            f"track: a property is {name}",
            "POST",
            TRACK.path,
            b'{"event": "buy", "userId": "u", "properties": {"x": ' + value + b"}}",
            field=f"properties.x{inner}",
        )
        yield Case(
            f"batch: a property is {name}",
            "POST",
            BATCH.path,
            b'{"events": [{"event": "buy", "userId": "u", "properties": {"x": ' + value + b"}}]}",
            field=f"events[0].properties.x{inner if inner in ('', '.a') else '[0]' * 62}",
        )


def sizes() -> Iterator[Case]:
    too_large = {"status": 413, "code": "body_too_large"}
    huge = b'{"key": "' + b"x" * (5 * 1024**2) + b'"}'
    for operation in OPERATIONS:
        yield Case(f"{operation.name}: body over 5 MiB", operation.method, operation.path, huge, **too_large)
    yield Case(
        "create flag: chunks over 5 MiB",
        "POST",
        "/v1/flags",
        huge,
        headers={"Transfer-Encoding": "chunked"},
        **too_large,
    )
    chunked = {"Transfer-Encoding": "chunked"}
    yield Case("create flag: bad chunks", "POST", "/v1/flags", b"{", code="malformed_json", headers=chunked)
    yield Case("delete flag: a body", "DELETE", FLAG, b'{"force": true}', field="force")
    yield Case("delete flag: a parameter", "DELETE", f"{FLAG}?force=1", code="invalid_parameter", field="force")
    yield Case("delete experiment: a body", "DELETE", DRAFT, b'{"force": true}', field="force")
    yield Case("get flag: a body", "GET", FLAG, b'{"fields": []}', field="fields")
    yield Case("get flag: a parameter", "GET", f"{FLAG}?fields=key", code="invalid_parameter", field="fields")
    yield Case("delete metric: a body", "DELETE", METRIC, b'{"force": true}', field="force")
    yield Case("get metric: a body", "GET", METRIC, b'{"fields": []}', field="fields")
    yield Case("get metric: a parameter", "GET", f"{METRIC}?fields=key", code="invalid_parameter", field="fields")
    yield Case("delete segment: a body", "DELETE", SEGMENT, b'{"force": true}', field="force")
    yield Case("get segment: a body", "GET", SEGMENT, b'{"fields": []}', field="fields")
    yield Case("get segment: a parameter", "GET", f"{SEGMENT}?fields=key", code="invalid_parameter", field="fields")
    yield Case("get experiment: a body", "GET", DRAFT, b'{"fields": []}', field="fields")
    for operation in (CREATE_FLAG, CREATE_SEGMENT, CREATE_METRIC, CREATE_EXPERIMENT):
        yield Case(f"{operation.name}: no body", operation.method, operation.path, field="key")
    yield Case("revert: no body", "POST", REVERT.path, field="revision")
    yield Case("preview: no body", "POST", PREVIEW.path, field="rules")
    yield Case("preview: an empty object", "POST", PREVIEW.path, b"{}", field="rules")
    yield Case("preview: a property that it does not preview", "POST", PREVIEW.path, b'{"tags": []}', field="tags")
    for operation in (UPDATE_FLAG, UPDATE_SEGMENT, UPDATE_METRIC, UPDATE_EXPERIMENT):
        yield Case(f"{operation.name}: no body", operation.method, operation.path, code="malformed_json")
    for operation in (EVALUATE, EVALUATE_ALL, EXPLAIN, VARIANT):
        yield Case(f"{operation.name}: no body", operation.method, operation.path, field="userId")
        yield Case(
            f"{operation.name}: no body, as a form", operation.method, operation.path, headers=FORM, field="userId"
        )
