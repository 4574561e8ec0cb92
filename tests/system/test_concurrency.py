"""Concurrent calls for the same thing: one succeeds, the others are refused, and nothing is counted
twice.
"""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest

from tests.system.server import Server
from tests.system.together import Call, ask_together

pytestmark = pytest.mark.system

CALLERS = 32
VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]


def make_draft(server: Server, key: str) -> str:
    response = server.ask("POST", "/v1/experiments", json={"key": key, "variants": VARIANTS, "metrics": ["buy"]})
    assert response.status_code == 201
    return f"/v1/experiments/{key}"


def query(server: Server, rows: str, column: str) -> list[str]:
    """One column of a queryset, as another process reads it."""
    code = (
        "from config.models import Change\nfrom experiments.models import Exposure\n"
        f"print(*{rows}.values_list({column!r}, flat=True), sep='\\n')"
    )
    return server.run("manage.py", "shell", "--verbosity", "0", "--command", code).splitlines()


def test_start__of_one_draft_by_32_callers__succeeds_once(server: Server) -> None:
    for at in range(5):
        path = make_draft(server, f"started-{at}")
        answers = ask_together(server, [Call("POST", f"{path}/start")] * CALLERS)
        assert Counter(answer.status for answer in answers) == {200: 1, 409: CALLERS - 1}
        assert {answer.code for answer in answers if answer.status == 409} == {"invalid_transition"}


def test_stop__of_one_running_experiment_by_32_callers__succeeds_once(server: Server) -> None:
    path = make_draft(server, "stopped")
    assert server.ask("POST", f"{path}/start").status_code == 200
    answers = ask_together(server, [Call("POST", f"{path}/stop")] * CALLERS)
    assert Counter(answer.status for answer in answers) == {200: 1, 409: CALLERS - 1}


def test_start__while_exposures_are_reported__counts_every_one_from_its_second_on(server: Server) -> None:
    for at in range(5):
        path = make_draft(server, f"reported-{at}")
        claims = [
            Call("POST", "/v1/events", {"event": "see", "userId": f"u{user}", "properties": properties})
            for properties in [{"experimentId": f"reported-{at}", "variant": "green"}]
            for user in range(CALLERS - 1)
        ]
        answers = ask_together(server, [*claims[:15], Call("POST", f"{path}/start"), *claims[15:]])
        assert Counter(answer.status for answer in answers) == {202: CALLERS - 1, 200: 1}
        experiment = server.ask("GET", path).json()["data"]
        second = experiment["startedAt"].partition(".")[0] + "Z"
        counting = server.ask("GET", f"/v1/events?experimentId=reported-{at}&from={second}").json()["data"]
        assert experiment["results"]["green"]["sampleSize"] == len(counting) > 0


def test_variant__of_one_new_user_for_32_callers__is_one_exposure(server: Server) -> None:
    path = make_draft(server, "exposed")
    assert server.ask("POST", f"{path}/start").status_code == 200
    for user in range(5):
        answers = ask_together(server, [Call("POST", f"{path}/variant", {"userId": f"user-{user}"})] * CALLERS)
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body["data"]["variant"] for answer in answers}) == 1
    results = server.ask("GET", path).json()["data"]["results"]
    assert sum(result["sampleSize"] for result in results.values()) == 5
    users = query(server, "Exposure.objects.filter(experiment__key='exposed').order_by('user_id')", "user_id")
    assert users == [f"user-{user}" for user in range(5)]


def test_variant__asked_and_reported_at_once__is_one_exposure_with_what_was_answered(server: Server) -> None:
    """Events that name the other variant must not change the variant that the service answered."""
    path = make_draft(server, "reported")
    assert server.ask("POST", f"{path}/start").status_code == 200
    for at in range(5):
        user = f"user-{at}"
        ask = Call("POST", f"{path}/variant", {"userId": user})
        claim = {"event": "see", "userId": user, "properties": {"experimentId": "reported", "variant": "green"}}
        answers = ask_together(server, [ask, Call("POST", "/v1/events", claim)] * (CALLERS // 2))
        assert {answer.status for answer in answers} == {200, 202}
        variants = {answer.body["data"]["variant"] for answer in answers if answer.status == 200}
        assert len(variants) == 1
        assert server.ask("POST", f"{path}/variant", json={"userId": user}).json()["data"]["variant"] in variants
    results = server.ask("GET", path).json()["data"]["results"]
    assert sum(result["sampleSize"] for result in results.values()) == 5


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/flags", {"key": "wanted"}), ("/v1/experiments", {"key": "wanted", "variants": VARIANTS})],
)
def test_create__of_one_key_by_32_callers__succeeds_once(server: Server, path: str, body: dict[str, object]) -> None:
    answers = ask_together(server, [Call("POST", path, body)] * CALLERS)
    assert Counter(answer.status for answer in answers) == {201: 1, 409: CALLERS - 1}
    assert {answer.code for answer in answers if answer.status == 409} == {"already_exists"}


def test_configuration__written_by_32_callers__has_consecutive_revisions(server: Server) -> None:
    creations = [Call("POST", "/v1/flags", {"key": f"written-{at}"}) for at in range(CALLERS)]
    assert {answer.status for answer in ask_together(server, creations)} == {201}
    changes = [Call("PATCH", f"/v1/flags/written-{at % 4}", {"description": f"by {at}"}) for at in range(CALLERS)]
    assert {answer.status for answer in ask_together(server, changes)} == {200}
    deletions = [Call("DELETE", f"/v1/flags/written-{at}") for at in range(CALLERS)]
    assert {answer.status for answer in ask_together(server, deletions)} == {204}
    revisions = [int(number) for number in query(server, "Change.objects.order_by('at', 'revision')", "revision")]
    assert len(revisions) >= 3 * CALLERS
    assert revisions == list(range(1, len(revisions) + 1))


def test_if_match__of_one_version_by_32_callers__lets_one_through(server: Server) -> None:
    tag = server.ask("POST", "/v1/flags", json={"key": "guarded"}).headers["ETag"]
    changes = [
        Call("PATCH", "/v1/flags/guarded", {"description": f"by {at}"}, {"If-Match": tag}) for at in range(CALLERS)
    ]
    answers = ask_together(server, changes)
    assert Counter(answer.status for answer in answers) == {200: 1, 412: CALLERS - 1}
    [change] = [answer for answer in answers if answer.status == 200]
    assert server.ask("GET", "/v1/flags/guarded").json() == change.body


def test_batches__with_common_ids_in_different_orders__store_each_event_once(server: Server) -> None:
    """Use different orders, so that callers that lock row by row would deadlock."""
    order = random.Random(20260131)
    events = [{"id": str(UUID(int=at, version=4)), "event": "common", "userId": f"u{at % 50}"} for at in range(300)]
    batches = []
    for _ in range(CALLERS):
        shuffled = order.sample(events, 200)
        batches.append(Call("POST", "/v1/events/batch", {"events": shuffled}))
    answers = ask_together(server, batches)
    assert {answer.status for answer in answers} == {202}
    statuses = Counter(entry["status"] for answer in answers for entry in answer.body["data"])
    sent = {event["id"] for batch in batches for event in batch.body["events"]}
    assert statuses == {"accepted": len(sent), "duplicate": CALLERS * 200 - len(sent)}
    stored = server.ask("GET", "/v1/events", params={"event": "common", "limit": 1000}).json()["data"]
    assert sorted(event["id"] for event in stored) == sorted(sent)


def test_batches__that_report_exposures_of_common_users__store_each_user_once(server: Server) -> None:
    path = make_draft(server, "reported-together")
    assert server.ask("POST", f"{path}/start").status_code == 200
    order = random.Random(20260131)
    users = [f"user-{at}" for at in range(100)]
    batches = []
    for at in range(CALLERS):
        variant = VARIANTS[at % 2]["key"]
        properties = {"experimentId": "reported-together", "variant": variant}
        events = [{"event": "see", "userId": user, "properties": properties} for user in order.sample(users, 100)]
        batches.append(Call("POST", "/v1/events/batch", {"events": events}))
    assert {answer.status for answer in ask_together(server, batches)} == {202}
    results = server.ask("GET", path).json()["data"]["results"]
    assert sum(result["sampleSize"] for result in results.values()) == len(users)


@pytest.mark.parametrize(("path", "events"), [("/v1/flags", 0), ("/v1/events", 1), ("/v1/events/batch", 3)])
def test_idempotency_key__of_one_request_by_32_callers__does_it_once_and_answers_all_the_same(
    server: Server, path: str, events: int
) -> None:
    for at in range(5):
        event = {"event": "buy", "userId": f"{path} {at}"}
        body = {"/v1/flags": {"key": f"once-{at}"}, "/v1/events": event, "/v1/events/batch": {"events": [event] * 3}}
        call = Call("POST", path, body[path], {"Idempotency-Key": f"{path} {at}"})
        answers = ask_together(server, [call] * CALLERS)
        assert {answer.status for answer in answers} == {202 if events else 201}
        assert all(answer.body == answers[0].body for answer in answers)
        stored = server.ask("GET", "/v1/events", params={"userId": event["userId"]}).json()["data"]
        assert len(stored) == events


def test_idempotency_key__of_two_requests_at_once__is_had_by_one(server: Server) -> None:
    for at in range(5):
        calls = [
            Call("POST", "/v1/flags", {"key": f"either-{at}-{which}"}, {"Idempotency-Key": f"either {at}"})
            for which in range(CALLERS)
        ]
        answers = ask_together(server, calls)
        assert Counter(answer.status for answer in answers) == {201: 1, 409: CALLERS - 1}
        assert {answer.code for answer in answers if answer.status == 409} == {"idempotency_conflict"}
    flags = server.ask("GET", "/v1/flags?search=either-").json()["data"]
    assert len(flags) == 5
