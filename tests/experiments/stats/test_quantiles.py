"""Quantiles of events whose users are clusters: their values, spread ties, and errors by hand."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.stats.quantiles import EventValues, quantiles_of
from experiments.stats.types import Quantile

Z = 1.959963984540054


def events(*values: list[float]) -> tuple[int, EventValues]:
    """A group of users and their events, one list for each user."""
    owners = [user for user, of_user in enumerate(values) for _ in of_user]
    return len(values), EventValues.of([value for of_user in values for value in of_user], owners)


def one_each(*values: float) -> tuple[int, EventValues]:
    """A group of users with one event each."""
    return events(*([value] for value in values))


def value_of(share: float, *values: float) -> float:
    return quantiles_of(share, [one_each(*values)])[0].value


def test_quantile__of_different_values__is_between_them(subtests: pytest.Subtests) -> None:
    for share, value in [(0.1, 1.25), (0.2, 1.5), (0.3, 2.0), (0.5, 3.0), (0.6, 3.5), (0.9, 4.75), (0.99, 4.975)]:
        with subtests.test(share=share):
            [found] = quantiles_of(share, [events([3, 1], [5], [], [4, 2])])
            assert (found.n, found.events) == (4, 5)
            assert found.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("share", "zeros", "ones", "value"),
    # Zeros are spread over [0, 0.5] and ones over [0.5, 1].
    [(0.5, 6, 4, 0.5 * 5 / 6), (0.9, 6, 4, 0.5 + 0.5 * 3 / 4), (0.6, 6, 4, 0.5), (0.25, 1, 9, 0.5 + 0.5 * 1.5 / 9)],
)
def test_quantile__of_two_values__moves_with_their_shares(share: float, zeros: int, ones: int, value: float) -> None:
    assert value_of(share, *[0.0] * zeros, *[1.0] * ones) == pytest.approx(value, rel=1e-12)


def test_quantile__of_the_items_of_orders__is_what_the_guide_says() -> None:
    assert value_of(0.5, *[2.0] * 40, *[3.0] * 30, *[4.0] * 30) == pytest.approx(2.5 + 1 / 3, rel=1e-12)


def test_quantile__of_prices__stays_near_the_plain_one() -> None:
    """The nearest neighbour of 10 is 12: it is spread over [9, 11], whatever the next price below is."""
    prices = [1.0] * 4 + [10.0] * 4 + [12.0] * 1 + [500.0] * 1
    assert value_of(0.5, *prices) == pytest.approx(9 + 2 * 1 / 4, rel=1e-12)
    assert value_of(0.8, *prices) == pytest.approx(11, rel=1e-12)
    assert value_of(0.95, *prices) == pytest.approx(256 + 244 / 2, rel=1e-12)


def test_quantile__value_of_another_group__bounds_the_spread() -> None:
    """Two groups are spread alike: the 2 of the other one makes room for the ones of both."""
    alone, *both = (value_of(0.75, 0, 1, 1, 1), *quantiles_of(0.75, [one_each(0, 1, 1, 1), one_each(0, 1, 1, 2)]))
    assert alone == pytest.approx(0.5 + 0.5 * 2 / 3, rel=1e-12)
    assert [found.value for found in both] == pytest.approx([0.5 + 2 / 3, 0.5 + 2 / 2], rel=1e-12)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_quantile__of_one_value__is_that_value_without_an_error(share: float) -> None:
    [alone] = quantiles_of(share, [events(*[[7.0, 7.0]] * 2000)])
    assert alone == Quantile(2000, 4000, 7.0, 0.0)
    alike, other = quantiles_of(share, [one_each(*[7.0] * 2000), one_each(*[7.0, 9.0] * 1000)])
    assert alike == Quantile(2000, 2000, 7.0, 0.0)
    assert other.squared_error > 0


def test_quantile__values_that_differ_by_rounding__are_one_value() -> None:
    """Else hardly anything of the nearest neighbour were left to spread over."""
    values = [0.0] * 10 + [0.3, 0.1 + 0.2] * 10 + [1.0] * 10
    rounded = quantiles_of(0.5, [one_each(*values)])
    [exact] = quantiles_of(0.5, [one_each(*(round(value, 1) for value in values))])
    assert (rounded[0].value, rounded[0].squared_error) == pytest.approx((exact.value, exact.squared_error))
    assert exact.squared_error > 0.001
    assert quantiles_of(0.5, [one_each(*[0.3, 0.1 + 0.2] * 30)])[0].squared_error == 0


def test_quantile__rank__is_exact() -> None:
    """55 % of a hundred are 55, though not in floats: 0.55 x 100 is somewhat more."""
    assert value_of(0.55, *map(float, range(1, 101))) == 55.5


@pytest.mark.parametrize(("group", "expected"), [(events(), Quantile()), (events([]), Quantile(n=1))])
def test_quantile__no_events__has_no_value(group: tuple[int, EventValues], expected: Quantile) -> None:
    assert quantiles_of(0.5, [group]) == [expected]
    assert quantiles_of(0.5, [group, one_each(1)])[0] == expected


def test_grouped__users__are_with_their_events_and_others_are_left_out() -> None:
    _, of_all = events([3, 1], [5], [], [4, 2], [9])
    groups = of_all.grouped(np.array([0, 1, 1, 0, -1]), 3)
    assert [(users, list(part.values), list(part.owners)) for users, part in groups] == [
        (2, [1, 2, 3, 4], [0, 3, 0, 3]),
        (2, [5], [1]),
        (0, [], []),
    ]


# errors


def test_error__of_different_values__is_computed_by_hand() -> None:
    """Of 1 to 100, the median has sigma = sqrt(25 / 100 * 100 / 99) / 10, so that its ends are 100 z sigma away."""
    [found] = quantiles_of(0.5, [one_each(*map(float, range(1, 101)))])
    assert found.value == 50.5
    assert found.squared_error == pytest.approx(100 * 100 * 25 / 9900, rel=1e-12)


def test_error__of_two_values__is_computed_by_hand() -> None:
    """60 zeros and 40 ones: the median takes t = 5/6 of the zeros, which end at 0.5.

    The share below it is t for a zero and 0 for a one, with the variance 0.6 * (t - 0.5)^2 + 0.4 * 0.5^2 times 100/99.
    Both ends are within the zeros, of which a share of 0.6 is 0.5 wide.
    """
    [found] = quantiles_of(0.5, [one_each(*[0.0] * 60, *[1.0] * 40)])
    away = Z * sqrt((0.6 * (5 / 6 - 0.5) ** 2 + 0.4 * 0.25) / 99)
    assert found.value == pytest.approx(0.5 * 5 / 6, rel=1e-12)
    assert away < 0.1
    assert sqrt(found.squared_error) == pytest.approx(away * 0.5 / 0.6 / Z, rel=1e-12)


def test_error__of_clusters__is_computed_by_hand() -> None:
    """40 users with two events of 1 and 3, and 20 users with one event of 2: the median is 2, in the middle of the 2s.

    Below it are 1 of 2 events of the first, and half an event of the others: exactly half of the events of each user.
    The quantile has no error then. With 3 events of 3, 1, 1 for ten users it has one.
    """
    alike = [[1.0, 3.0]] * 40 + [[2.0]] * 20
    [found] = quantiles_of(0.5, [events(*alike)])
    assert (found.value, found.squared_error) == (2.0, 0.0)
    [other] = quantiles_of(0.5, [events(*alike, *[[1.0, 1.0, 3.0]] * 10)])
    # 130 events: 60 ones, 20 twos, 50 threes. The rank 65 is a fourth into the twos, spread over [1.5, 2.5].
    assert other.value == pytest.approx(1.75, rel=1e-12)
    squares = 40 * (1 - 1) ** 2 + 20 * (0.25 - 0.5) ** 2 + 10 * (2 - 1.5) ** 2
    away = Z * sqrt(squares * 70 / 69) / 130
    # Both ends are within the twos, of which a share of 20/130 is 1 wide.
    assert away < 5 / 130
    assert other.squared_error == pytest.approx((away * 130 / 20 / Z) ** 2, rel=1e-12)


def test_error__next_to_a_gap__is_that_of_the_farther_end() -> None:
    """The median is the greatest of the lower half. A little above it, the values are 100 greater."""
    half = [float(value) for value in range(50)]
    [found] = quantiles_of(0.5, [one_each(*half, *(value + 150 for value in half))])
    away = Z * sqrt(0.25 * 100 / 99 / 100) * 100
    assert found.value == 49.5
    upper = 150 - 0.5 + away  # the 51st value is 150, spread over [149.5, 150.5]
    assert found.squared_error == pytest.approx(((upper - 49.5) / Z) ** 2, rel=1e-12)


@pytest.mark.parametrize(("share", "enough"), [(0.5, 20), (0.9, 100), (0.1, 100), (0.99, 1000)])
def test_error__fewer_than_ten_events_on_a_side__is_unknown(share: float, enough: int) -> None:
    few, many = (one_each(*map(float, range(number))) for number in (enough - 1, enough))
    assert quantiles_of(share, [few])[0].squared_error == 0
    assert quantiles_of(share, [many])[0].squared_error > 0


def test_error__one_user_with_most_events__is_unknown() -> None:
    """A thousand events of one user are hardly worth more than one."""
    eager = [float(value) for value in range(1000)]
    assert quantiles_of(0.5, [events(eager, *([value] for value in eager[:50]))])[0].squared_error == 0


@pytest.mark.parametrize(("share", "most"), [(0.5, 1.25), (0.9, 1.5)])
def test_error__is_the_spread_of_quantiles_of_clustered_samples(share: float, most: float) -> None:
    """Events of a user resemble each other, so an error by events alone would be far too small.

    The error is that of the wider side, which is the upper one here.
    """
    random, found = np.random.default_rng(11), []
    for _ in range(300):
        number = random.poisson(4, 400)
        owners = np.repeat(np.arange(400), number)
        values = np.exp(np.repeat(random.normal(0, 1, 400), number) + random.normal(0, 0.3, len(owners)))
        found += quantiles_of(share, [(400, EventValues.of(values, owners))])
    spread = np.std([quantile.value for quantile in found])
    errors = np.sqrt([quantile.squared_error for quantile in found])
    assert spread <= np.median(errors) <= most * spread


# for any values

VALUES = st.lists(st.lists(st.integers(0, 6).map(float), max_size=4), min_size=1, max_size=60)


@given(of_users=VALUES, others=VALUES, share=st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99]))
def test_quantile__any_values__is_within_the_values_and_near_the_plain_quantile(
    of_users: list[list[float]], others: list[list[float]], share: float
) -> None:
    [found, _] = quantiles_of(share, [events(*of_users), events(*others)])
    values = sorted(value for of_user in of_users for value in of_user)
    if not values:
        assert found == Quantile(n=len(of_users))
        return
    plain = values[ceil(Fraction(str(share)) * len(values)) - 1]
    different = sorted({*values, *(value for of_user in others for value in of_user)})
    gaps = [abs(value - plain) for value in different if value != plain]
    assert different[0] <= found.value <= different[-1]
    assert abs(found.value - plain) <= min(gaps, default=0) / 2 + 1e-9


@given(of_users=VALUES, factor=st.sampled_from([0.5, 3.0, 1024.0]), share=st.sampled_from([0.25, 0.5, 0.9]))
def test_quantile__in_another_unit__is_the_same_in_that_unit(
    of_users: list[list[float]], factor: float, share: float
) -> None:
    [found] = quantiles_of(share, [events(*of_users)])
    [other] = quantiles_of(share, [events(*([factor * value for value in of_user] for of_user in of_users))])
    assert (other.n, other.events) == (found.n, found.events)
    assert other.value == pytest.approx(factor * found.value)
    assert other.squared_error == pytest.approx(factor * factor * found.squared_error)
