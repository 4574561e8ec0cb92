"""The examples of the OpenAPI document are the calls of the guide's tour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from config.api.document import Call, _read, add_examples
from tests.openapi import document

CREATED = "HTTP/1.1 201 Created\n\n" + '{"data": {"key": "a"}}'


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    return {
        operation["operationId"]: operation
        for methods in document()["paths"].values()
        for operation in methods.values()
    }


def json_contents(operations: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, operation in operations.items():
        successes = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
        for content in (answer.get("content", {}).get("application/json") for answer in successes):
            if content is not None:
                yield name, content


def test_operations__all_that_answer_json__have_an_example_of_a_success(operations: dict[str, Any]) -> None:
    assert [name for name, content in json_contents(operations) if not content.get("examples")] == []


def test_read__curl_with_its_answer__is_a_call() -> None:
    command = """curl -si -X PATCH http://127.0.0.1:8000/v1/flags/a?dryRun=true -d '{"enabled": true}'\n"""
    call = Call("Change it", "patch", "/v1/flags/a", {"enabled": True}, 201, {"data": {"key": "a"}})
    assert _read("Change it", command, "http", CREATED) == call


def test_read__variables_before_the_call__are_passed_over() -> None:
    command = """ID=$(curl -s http://127.0.0.1:8000/v1/flags)\ncurl -s http://127.0.0.1:8000/v1/flags/a -d "{$ID}"\n"""
    assert _read("Use it", command, "json", '{"data": {}}') == Call(
        "Use it", "post", "/v1/flags/a", None, None, {"data": {}}
    )


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("curl -s http://127.0.0.1:8000/v1/flags | jq .", "json"),
        ("curl -s http://127.0.0.1:8000/v1/flags", "text"),
        (".venv/bin/python manage.py list_keys", "json"),
    ],
)
def test_read__no_plain_answer__is_no_call(command: str, form: str) -> None:
    assert _read("Title", command, form, "{}") is None


def test_add_examples__error__goes_to_the_answer_of_its_status() -> None:
    operation: dict[str, Any] = {"responses": {"200": {}, "409": {"content": {"application/json": {}}}}}
    add_examples({"/v1/flags": {"post": operation}})
    assert all(
        "error" in example["value"]
        for example in operation["responses"]["409"]["content"]["application/json"].get("examples", {}).values()
    )
