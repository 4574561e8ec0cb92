"""The properties that recent events have, with their kinds, shares and values."""

from __future__ import annotations

from datetime import timedelta

import pytest

from config.models import Environment
from events.queries import SeenProperty, newest_events
from tests.conftest import NOON
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db


def test_seen_properties__of_recent_events__are_ordered_by_frequency_with_their_kind(
    production: Environment, staging: Environment
) -> None:
    for properties in (
        {"page": "/a", "seconds": 1, "paid": True, "gone": None},
        {"page": "/b", "seconds": 2.5, "tags": ["x"]},
        {"page": 7},
    ):
        EventFactory(name="view", properties=properties)
    EventFactory(name="buy", properties={"other": 1})
    EventFactory(name="view", environment=staging, properties={"elsewhere": 1})
    assert newest_events(production, "view").properties == [
        SeenProperty("page", "text"),
        SeenProperty("seconds", "number"),
        SeenProperty("paid", "yes or no"),
        SeenProperty("tags", "other"),
    ]
    assert newest_events(production, "none").properties == []


def test_seen_properties__of_many_events__reads_only_the_newest(production: Environment) -> None:
    EventFactory(name="view", timestamp=NOON - timedelta(days=1), properties={"old": 1})
    EventFactory.create_batch(200, name="view", timestamp=NOON, properties={"new": 1})
    assert newest_events(production, "view").properties == [SeenProperty("new", "number")]


def test_newest_events__have_the_share_and_the_most_frequent_values_of_each_property(production: Environment) -> None:
    for at, properties in enumerate(({"plan": "pro", "n": 1}, {"plan": "pro"}, {"plan": "free", "tags": []}, {})):
        EventFactory(name="view", timestamp=NOON + timedelta(minutes=at), properties=properties)
    newest = newest_events(production, "view")
    assert (newest.number, newest.latest) == (4, NOON + timedelta(minutes=3))
    assert [(seen.name, seen.share, list(seen.examples)) for seen in newest.properties] == [
        ("plan", 0.75, ["pro", "free"]),
        ("n", 0.25, [1]),
        ("tags", 0.25, []),
    ]


def test_newest_events__of_an_unknown_name__are_none(production: Environment) -> None:
    newest = newest_events(production, "none")
    assert (newest.number, newest.latest, newest.properties) == (0, None, [])
