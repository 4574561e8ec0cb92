"""An evaluator that was written from the guide, in another language, decides as the service does."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.timestamps import format_timestamp
from flags.engine.operands import compile_pattern
from tests.flags.engine.reference import VECTORS, load_vectors
from tests.system.local_evaluation.flags import FLAGS, SEGMENTS
from tests.system.local_evaluation.patterns import REFUSED, TEXTS, TRANSLATED
from tests.system.local_evaluation.users import users
from tests.system.server import Server

pytestmark = [pytest.mark.system, pytest.mark.once]

FOLDER = Path(__file__).parent / "local_evaluation"
EXACT_IN_JAVASCRIPT = 2**53
NO_FLAGS = {"data": {"flags": [], "segments": []}}


def answers_of_node(ruleset: Any, **questions: list[Any]) -> dict[str, list[Any]]:
    """What the evaluator says to `evaluations`, `buckets`, `splits` and `patterns`, in their order."""
    node = shutil.which("node")
    assert node, "Node.js is missing: `make test-system` says what it needs"
    asked = {"evaluations": [], "buckets": [], "splits": [], "patterns": [], **questions, "ruleset": ruleset}
    done = subprocess.run(
        [node, "answers.mjs"],
        cwd=FOLDER,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, list[Any]] = json.loads(done.stdout)
    return answers


def question(flag: str, user_id: str, attributes: dict[str, Any], now: str) -> dict[str, Any]:
    readable = {name: _readable(value) for name, value in attributes.items()}
    return {"flag": flag, "userId": user_id, "attributes": readable, "now": now}


def _readable(value: Any) -> Any:
    """An integer that JavaScript's JSON would round goes as text."""
    return {"integer": str(value)} if type(value) is int and abs(value) > EXACT_IN_JAVASCRIPT else value


def test_evaluator__published_evaluations__are_reproduced() -> None:
    document = json.loads((VECTORS / "evaluations.json").read_text(encoding="utf-8"))
    published = document["evaluations"]
    asked = [question(case["flag"], case["userId"], case["attributes"], case["now"]) for case in published]
    answers = answers_of_node({"data": document["ruleset"]}, evaluations=asked)["evaluations"]
    assert [(case, said) for case, said in zip(published, answers, strict=True) if case["answer"] != said] == []


def test_evaluator__published_buckets_and_splits__are_reproduced() -> None:
    buckets, splits = load_vectors("buckets"), load_vectors("splits")
    answers = answers_of_node(NO_FLAGS, buckets=buckets, splits=splits)
    assert answers["buckets"] == [bucket["bucket"] for bucket in buckets]
    assert answers["splits"] == [split["variant"] for split in splits]


def test_patterns__that_are_not_refused__find_what_re2_finds() -> None:
    asked = [
        {"pattern": pattern, "ignoreCase": ignore_case, "texts": TEXTS}
        for pattern in (*TRANSLATED, *REFUSED)
        for ignore_case in (False, True)
    ]
    searched = answers_of_node(NO_FLAGS, patterns=asked)["patterns"]
    refused = {asked["pattern"] for asked, found in zip(asked, searched, strict=True) if found == "refused"}
    assert refused == set(REFUSED)
    for question_asked, found in zip(asked, searched, strict=True):
        if found != "refused":
            pattern = compile_pattern(question_asked["pattern"], question_asked["ignoreCase"])
            expected = [pattern.search(text) is not None for text in TEXTS]
            pairs = zip(TEXTS, found, expected, strict=True)
            differing = [(text, said, right) for text, said, right in pairs if said not in (right, None)]
            assert (question_asked, differing) == (question_asked, [])


def test_pattern__that_only_re2_can_search_for__gives_nothing_and_spoils_nothing_else() -> None:
    def flag(key: str, pattern: str) -> dict[str, Any]:
        conditions = [{"attribute": "email", "operator": "matches", "value": pattern, "negate": True}]
        return {"key": key, "enabled": True, "rules": [{"type": "attribute", "conditions": conditions}]}

    ruleset = {"data": {"flags": [flag("only-re2", "(?i:a)b"), flag("both", "z")], "segments": []}}
    asked = [question(key, "u", {"email": "ab"}, "2026-01-01") for key in ("only-re2", "both")]
    answers = answers_of_node(ruleset, evaluations=asked)["evaluations"]
    assert [answer["enabled"] for answer in answers] == [False, True]


@pytest.fixture(scope="module")
def fetched(server: Server) -> httpx.Response:
    """The ruleset of a server with flags and segments of every kind, one flag of them archived."""
    with server.client() as client:
        for path, documents in (("/v1/segments", SEGMENTS), ("/v1/flags", FLAGS)):
            for document in documents:
                created = client.post(path, json=document)
                assert created.status_code == 201, created.text
        client.post("/v1/flags", json={"key": "put-aside", "rules": FLAGS[-1]["rules"]})
        assert client.post("/v1/flags/put-aside/archive").status_code == 200
    with server.client("server") as client:
        return client.get("/v1/ruleset", headers={"Accept-Encoding": "gzip"})


def test_ruleset__of_a_running_server__comes_as_gzip_with_all_flags(fetched: httpx.Response) -> None:
    assert (fetched.status_code, fetched.headers["Content-Encoding"]) == (200, "gzip")
    flags = fetched.json()["data"]["flags"]
    assert [flag["key"] for flag in flags] == sorted([flag["key"] for flag in FLAGS] + ["put-aside"])


def test_evaluator__ruleset_of_a_running_server__decides_as_the_server_does(
    server: Server, fetched: httpx.Response
) -> None:
    ruleset, now = fetched.json(), format_timestamp(datetime.now(UTC))
    keys = [flag["key"] for flag in ruleset["data"]["flags"]]
    asked, expected = [], []
    with server.client("client") as client:
        for user in users(200):
            evaluated = client.post("/v1/evaluate", json={**user, "flags": keys})
            assert evaluated.status_code == 200, evaluated.text
            expected += [evaluated.json()["data"][key] for key in keys]
            asked += [question(key, user["userId"], user["attributes"], now) for key in keys]
    answers = answers_of_node(ruleset, evaluations=asked)["evaluations"]
    triples = zip(asked, expected, answers, strict=True)
    assert [
        (question_asked, server_said, said) for question_asked, server_said, said in triples if server_said != said
    ] == []
    assert {answer["reason"] for answer in answers} == {
        *("disabled", "prerequisite_failed", "rule_match", "no_rule_match", "default")
    }


def test_ruleset__asked_for_again__is_not_sent_until_something_changes(server: Server, fetched: httpx.Response) -> None:
    headers = {"If-None-Match": fetched.headers["ETag"]}
    with server.client("server") as client:
        again = client.get("/v1/ruleset", headers=headers)
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", fetched.headers["ETag"])
        server.ask("POST", "/v1/flags", json={"key": "one-more"}).raise_for_status()
        assert client.get("/v1/ruleset", headers=headers).status_code == 200
