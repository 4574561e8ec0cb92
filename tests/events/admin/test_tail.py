"""What the live tail of the list of events answers, and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Environment
from events.admin.name_page import address_of
from tests.admin import sign_in
from tests.conftest import NOON
from tests.factories import EventFactory

LIST = "/admin/events/event/"
TAIL = "/admin/events/event/tail/"
HERE = {"environment": "production"}


def test_tail__from_a_position__has_what_arrived_with_its_links(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    EventFactory(name="old")
    client = sign_in()
    first = client.get(TAIL, HERE).json()
    assert (first["events"], first["hasMore"]) == ([], False)
    event = EventFactory(
        name="b&b", user_id="a/b", timestamp=NOON, properties={"revenue": 5, "experimentId": "e", "variant": "v"}
    )
    with django_assert_max_num_queries(5):  # session, user, environments, position, events
        answer = client.get(TAIL, {**HERE, "after": first["position"]})
    assert "no-store" in answer["Cache-Control"]
    assert {
        "id": str(event.pk),
        "address": address_of(event),
        "timestamp": "2026-01-31T12:00:00+00:00",
        "event": "b&b",
        "eventAddress": "/admin/events/event/named/?event=b%26b",
        "userId": "a/b",
        "userAddress": "/admin/experiments/experiment/user/?id=a%2Fb",
        "details": "e · v · revenue 5",
    } in answer.json()["events"]


def test_tail__bad_request__is_refused_in_words(subtests: pytest.Subtests, db: None) -> None:
    client = sign_in()
    for query, status, words in [
        ({**HERE, "after": "x"}, 400, "after: Must be the position of the last answer."),
        ({**HERE, "after": "-1"}, 400, "after: Must be the position of the last answer."),
        ({**HERE, "after": "1 2:3:4 5 6"}, 400, "after: Must be the position of the last answer."),
        ({**HERE, "after": "1" * 19}, 400, "after: Must be the position of the last answer."),
        ({**HERE, "userId": "a\0"}, 400, "userId: Must not contain U+0000."),
        ({"environment": "staging"}, 412, "You opened this page in another environment"),
        ({}, 412, "You opened this page in another environment"),
    ]:
        with subtests.test(query=query):
            answer = client.get(TAIL, query)
            assert answer.status_code == status
            assert words in answer.json()["error"]


def test_tail__without_the_right_to_see_events__is_refused(db: None) -> None:
    assert sign_in("flags.view_flag").get(TAIL, HERE).status_code == 403


def test_list__that_the_tail_can_follow__offers_it(subtests: pytest.Subtests, db: None) -> None:
    client = sign_in()
    for query, followed in [
        ({}, "environment=production"),
        ({"event": "a&b", "userId": ""}, "environment=production&amp;event=a%26b"),
        ({"experimentId": "e", "variant": "v"}, "environment=production&amp;experimentId=e&amp;variant=v"),
        ({"from": "2026-01-01"}, None),
        ({"p": "2"}, None),
        ({"event": "a", "properties.plan": "pro"}, None),
        ({"variant": "v"}, None),
    ]:
        with subtests.test(query=query, followed=followed):
            page = client.get(LIST, query).content.decode()
            assert ('id="hy-follow"' in page) is (followed is not None)
            if followed:
                assert f'data-address="{TAIL}?{followed}"' in page
