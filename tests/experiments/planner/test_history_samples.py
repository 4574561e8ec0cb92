"""The values of a metric for a sample of recent users."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.planner import history
from experiments.planner.history import EventSample, sample_events
from tests.conftest import NOON
from tests.factories import EventFactory

DAY = timedelta(days=1)
NOW = NOON + 40 * DAY
CAME = NOON + 20 * DAY


def metric(type: str, quantity: Quantity = Quantity("buy"), **rest: Any) -> Definition:  # noqa: B008
    return Definition(key="m", version=1, type=type, quantity=quantity, **rest)


def sampled(definition: Definition, environment: Environment) -> EventSample:
    found = sample_events(definition, environment, NOW)
    assert found is not None
    return found


def come(*user_ids: str) -> None:
    for user_id in user_ids:
        EventFactory(user_id=user_id, timestamp=CAME)


def buy(user_id: str, after: timedelta = DAY, **properties: Any) -> None:
    EventFactory(name="buy", user_id=user_id, timestamp=CAME + after, properties=properties)


def test_sample__nobody_came__is_none(production: Environment) -> None:
    assert sample_events(metric("conversion"), production, NOW) is None


def test_sample__window__counts_from_the_first_event_and_leaves_out_whose_window_is_open(
    production: Environment,
) -> None:
    come("early", "late", "never")
    EventFactory(user_id="new", timestamp=NOW - DAY)
    buy("early", timedelta(hours=47))
    buy("late", timedelta(hours=48))
    found = sampled(metric("conversion", window=2 * DAY), production)
    assert (found.users, found.sums.n, found.sums.y) == (3, 3, 1)
    assert (found.start, found.end) == (CAME, NOW - 2 * DAY)


def test_sample__retention__is_the_share_of_those_who_came_back_on_those_days(production: Environment) -> None:
    come("too soon", "in time", "too late")
    for user_id, days in (("too soon", 6), ("in time", 7), ("too late", 14)):
        buy(user_id, days * DAY)
    found = sampled(metric("retention", delay=7 * DAY, window=7 * DAY), production)
    assert (found.sums.n, found.sums.y) == (3, 1)


def test_sample__mean__is_the_mean_of_each_users_numbers(production: Environment) -> None:
    come("a", "b", "c")
    for user_id, rating in (("a", 4), ("a", 2.5), ("b", True), ("b", "5"), ("b", None)):
        buy(user_id, rating=rating)
    found = sampled(metric("mean", Quantity("buy", "rating")), production)
    assert (found.sums.n, found.sums.y, found.sums.yy) == (3, 3.25, 3.25**2)


def test_sample__revenue__adds_up_its_own_currency_alone(production: Environment) -> None:
    come("a")
    for amount, currency in ((10, "EUR"), (90, "USD"), (5, "eur")):
        buy("a", revenue=amount, currency=currency)
    buy("a", revenue=7)
    assert sampled(metric("revenue", Quantity("buy", "revenue", "EUR")), production).sums.y == 15


def test_sample__conditions__leave_other_events_out(production: Environment) -> None:
    come("a", "b")
    for user_id, size in (("a", 1), ("a", 2), ("b", "2")):
        buy(user_id, size=size)
    large = Quantity("buy", where=(Condition("size", "greaterThan", 1),))
    assert sampled(metric("count", large), production).sums.y == 1


def test_sample__funnel__is_passed_by_events_in_order(production: Environment) -> None:
    come("through", "backwards", "stuck", "once")
    for user_id, sizes in (("through", "1x2"), ("backwards", "21"), ("stuck", "11"), ("once", "2")):
        for hours, size in enumerate(sizes, start=1):
            buy(user_id, hours * timedelta(hours=1), size=size)
    steps = tuple(Quantity("buy", where=(Condition("size", "equals", size),)) for size in "12")
    found = sampled(metric("funnel", steps[0], steps=steps), production)
    assert (found.sums.n, found.sums.y, found.sums.yy) == (4, 1, 1)


def test_sample__funnel_of_equal_steps__takes_an_event_for_each(production: Environment) -> None:
    come("once", "twice")
    for user_id, hours in (("once", 1), ("twice", 1), ("twice", 2)):
        buy(user_id, hours * timedelta(hours=1))
    found = sampled(metric("funnel", steps=(Quantity("buy"),) * 2), production)
    assert found.sums.y == 1


def test_sample__steps_at_the_same_moment__are_passed_in_any_order(production: Environment) -> None:
    come("a", "b")
    for user_id, sizes in (("a", (1, 2)), ("b", (2, 1))):
        for size in sizes:
            buy(user_id, timedelta(hours=1), size=size)
    steps = tuple(Quantity("buy", where=(Condition("size", "equals", size),)) for size in (1, 2))
    assert sampled(metric("funnel", steps=steps), production).sums.y == 2


def test_sample__distinct__counts_values_or_days(production: Environment) -> None:
    come("a", "b")
    for days, size in ((1, 1), (1, "1"), (2, 1), (3, True), (4, None), (5, [2])):
        buy("a", days * DAY, size=size)
    assert sampled(metric("distinct", Quantity("buy", "size")), production).sums.y == 3
    assert sampled(metric("distinct"), production).sums.y == 5


def test_sample__percentile__caps_at_the_nearest_rank_of_what_is_not_zero(production: Environment) -> None:
    come("nothing", *"abcd")
    for user_id, size in zip("abcd", (1, 2, 3, 100), strict=True):
        buy(user_id, size=size)
    capped = metric("sum", Quantity("buy", "size"), cap_percentile=75.0)
    assert sampled(capped, production).sums.y == 1 + 2 + 3 + 3


def test_sample__percentile__takes_the_rank_exactly(production: Environment) -> None:
    """55 % of a hundred values are 55 of them, though not in floats: 0.55 x 100 is somewhat more."""
    users = [f"user-{number:03}" for number in range(100)]
    come(*users)
    for size, user_id in enumerate(users, start=1):
        buy(user_id, size=size)
    capped = metric("sum", Quantity("buy", "size"), cap_percentile=55.0)
    assert sampled(capped, production).sums.y == sum(range(1, 56)) + 45 * 55


def test_sample__percentile_of_values_below_zero__caps_nothing(production: Environment) -> None:
    come("nothing", *"abcd")
    for user_id, size in zip("abcd", (-4, -3, -2, 9), strict=True):
        buy(user_id, size=size)
    capped = metric("sum", Quantity("buy", "size"), cap_percentile=75.0)
    assert sampled(capped, production).sums.y == 0


def test_sample__more_users_than_are_looked_at__is_reported_with_the_number_of_all(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_SAMPLED_USERS", 5)
    come(*(f"user-{number}" for number in range(12)))
    for number in range(12):
        buy(f"user-{number}")
    found = sampled(metric("count"), production)
    assert (found.users, found.sums.n, found.sums.y) == (12, 5, 5)


@pytest.mark.parametrize("most", [11, 12, 13])
def test_sample__about_as_many_users_as_are_looked_at__counts_them_all(
    production: Environment, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(history, "MAX_SAMPLED_USERS", most)
    come(*(f"user-{number}" for number in range(12)))
    EventFactory(user_id="new", timestamp=NOW - DAY)
    found = sampled(metric("count", window=2 * DAY), production)
    assert (found.users, found.sums.n) == (12, min(most, 12))


@pytest.mark.one_server("Citus takes a statement for each setting of its planner")
def test_sample__any_number_of_metrics_events__takes_a_few_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    come(*"abcdefgh")
    buy("a")
    with django_assert_max_num_queries(6):  # who, their events, and what PostgreSQL is told beforehand
        sampled(metric("conversion"), production)
