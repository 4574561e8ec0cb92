"""The OpenAPI document as a whole: its introduction, the order of its operations, and its examples.

The operations have the order of the guide's tour. The examples are the requests and answers of the tour, which tests
run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from config.errors import ErrorCode

TAGS = {
    "Flags": "What is on for whom: flags with their rules, evaluations of them, and their history.",
    "Segments": "Groups of users that rules can name.",
    "OpenFeature": "OpenFeature's Remote Evaluation Protocol (OFREP), which its clients speak.",
    "Metrics": "What experiments measure.",
    "Experiments": "Experiments from their plan to the decision, variants of users, and results.",
    "Events": "What users do, as your application tracks it.",
    "Users": "All that is stored of one user.",
    "Environments": "Environments, each with its own state of every flag.",
    "Keys": "API keys.",
    "Kill switches": "How an alert manager switches flags off.",
    "Audit": "Who changed what, when and why.",
}
"""The groups of operations, each with its description."""

PATHS = (
    "/v1/flags",
    "/v1/flags/{flag_key}/evaluate",
    "/v1/flags/{flag_key}",
    "/v1/promote",
    "/v1/evaluate",
    "/v1/ruleset",
    "/v1/flags/{flag_key}/explain",
    "/v1/flags/{flag_key}/usage",
    "/v1/flags/{flag_key}/preview",
    "/v1/flags/{flag_key}/history",
    "/v1/flags/{flag_key}/revert",
    "/v1/flags/{flag_key}/archive",
    "/v1/flags/{flag_key}/restore",
    "/v1/segments",
    "/v1/segments/{segment_key}/users",
    "/v1/segments/{segment_key}",
    "/v1/segments/{segment_key}/revert",
    "/ofrep/v1/evaluate/flags/{flag_key}",
    "/ofrep/v1/evaluate/flags",
    "/v1/metrics",
    "/v1/metrics/{metric_key}",
    "/v1/experiments/{experiment_key}",
    "/v1/experiments/{experiment_key}/results",
    "/v1/experiments/{experiment_key}/results/explain",
    "/v1/experiments",
    "/v1/planner",
    "/v1/experiments/{experiment_key}/checklist",
    "/v1/experiments/{experiment_key}/start",
    "/v1/experiments/{experiment_key}/variant",
    "/v1/variants",
    "/v1/experiments/{experiment_key}/phases",
    "/v1/events",
    "/v1/events/batch",
    "/v1/events/counts",
    "/v1/experiments/{experiment_key}/stop",
    "/v1/experiments/{experiment_key}/reopen",
    "/v1/experiments/{experiment_key}/archive",
    "/v1/experiments/{experiment_key}/unarchive",
    "/v1/users/{user_id}",
    "/v1/environments",
    "/v1/environments/{environment_key}",
    "/v1/keys",
    "/v1/keys/{key_id}",
    "/v1/keys/{key_id}/revoke",
    "/v1/hooks/{hook_id}",
    "/v1/audit",
)
_METHODS = ("post", "get", "patch", "delete")


def introduce(document: dict[str, Any]) -> None:
    """Add the introduction, and put operations in order."""
    introduction = settings.BASE_DIR / "templates" / "docs" / "introduction.md"
    document["info"]["description"] = introduction.read_text(encoding="utf-8")
    document["tags"] = [{"name": name, "description": description} for name, description in TAGS.items()]
    methods = document["paths"]
    document["paths"] = {path: _in_order(methods[path]) for path in sorted(methods, key=PATHS.index)}


def _in_order(operations: dict[str, Any]) -> dict[str, Any]:
    return {method: operations[method] for method in sorted(operations, key=_METHODS.index)}


_TOUR = Path(settings.BASE_DIR) / "templates" / "guide" / "tour"
_PART = re.compile(r"^#+ (?P<title>[^\n]*)$|^```(?P<form>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = {code.value: code.status for code in ErrorCode}


@dataclass(frozen=True, slots=True)
class Call:
    """A request of the tour and its answer. `status` is None if the tour prints only the body of a
    success.
    """

    title: str
    method: str
    path: str
    sent: Any
    status: int | None
    answered: Any


def add_examples(paths: dict[str, Any]) -> None:
    """Add the calls of the tour to the operations of an OpenAPI document, as examples of bodies and answers."""
    for path, operations in paths.items():
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        calls = [call for call in _calls() if pattern.fullmatch(call.path)]
        for method, operation in operations.items():
            for call in calls:
                if call.method == method:
                    _add(operation, call)


def _add(operation: dict[str, Any], call: Call) -> None:
    statuses = sorted(operation["responses"])
    status = str(call.status) if call.status else next(code for code in statuses if code.startswith("2"))
    answer = operation["responses"].get(status, {}).get("content", {}).get("application/json")
    if answer is not None and call.answered is not None:
        _put(answer, call.title, call.answered)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    is_refused = not status.startswith("2") or b'"rejected"' in orjson.dumps(call.answered)
    if body is not None and call.sent is not None and not is_refused:
        _put(body, call.title, call.sent)


def _put(content: dict[str, Any], title: str, value: Any) -> None:
    """Add an example under its title, once for each value."""
    examples = content.setdefault("examples", {})
    if not any(example["value"] == value for example in examples.values()):
        number = sum(name.startswith(title) for name in examples)
        examples[f"{title} ({number + 1})" if number else title] = {"value": value}


@cache
def _calls() -> tuple[Call, ...]:
    return tuple(call for page in sorted(_TOUR.glob("*.md")) for call in _calls_of(page.read_text()))


def _calls_of(page: str) -> Iterator[Call]:
    """Yield the calls whose answer the page prints below them."""
    title, command = "", ""
    for part in _PART.finditer(page):
        if part["title"]:
            title = part["title"]
        elif part["form"] == "sh":
            command = part["text"]
        elif call := _read(title, command, part["form"], part["text"]):
            yield call


def _read(title: str, command: str, form: str, answer: str) -> Call | None:
    last = command[max(command.rfind("\ncurl "), 0) :]  # the lines before only set variables
    words = shlex.split(last.partition(" | tee ")[0])
    prints_status = "%{http_code}" in words
    if words[0] != "curl" or "|" in words or (form == "text") != prints_status:
        return None
    address = next((word for word in words if word.startswith("http://")), "")
    path = re.sub(r"^http://[^/]+|\?.*$", "", address)
    data = words[words.index("-d") + 1] if "-d" in words else ""
    sent = None if "$" in data else orjson.loads(data or "{}")
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    head, _, body = answer.partition("\n\n") if form == "http" else ("", "", answer)
    answered = orjson.loads(body) if body.strip().startswith("{") else None
    status = int(head.split()[1]) if head else int(answer) if prints_status else None
    if path.startswith("/v1") and answered and not answered.keys() & {"data", "error"}:
        answered = None  # a line of an export
    if answered and "error" in answered:
        status = _STATUS[answered["error"]["code"]]
    return Call(title, method.lower(), path, sent, status, answered)
