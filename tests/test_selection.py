"""The choice of tests that run on one database only, which is the same in every run."""

from __future__ import annotations

from typing import Any

import pytest

from tests import selection
from tests.selection import MOST_CASES, SHARE, choose, number_of_examples


class Item:
    """A test as far as the selection looks at it."""

    def __init__(self, nodeid: str, *markers: str, fixtures: tuple[str, ...] = ("db",)) -> None:
        self.nodeid, self.markers, self.fixturenames = nodeid, markers, fixtures

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None


def chosen(*markers: str, cases: int = 1_000) -> list[str]:
    items: list[Any] = [Item(f"tests/test_it.py::test_it[{number}]", *markers) for number in range(cases)]
    return [item.nodeid for item in choose(items)]


@pytest.mark.parametrize("markers", [("broad",), (), ("system",)])
def test_broad__many_cases__are_reduced_to_about_their_share(markers: tuple[str, ...]) -> None:
    assert 0.8 < len(chosen(*markers)) * SHARE / 1_000 < 1.2


@pytest.mark.parametrize(("markers", "cases"), [(("broad",), 1), (("broad",), 4)])
def test_broad__no_case_is_in_the_share__runs_one(markers: tuple[str, ...], cases: int) -> None:
    [case] = chosen(*markers, cases=cases)
    assert not selection.is_in_share(case)


def test_broad__the_same_names__give_the_same_tests() -> None:
    assert chosen("broad")[:3] == [f"tests/test_it.py::test_it[{number}]" for number in (5, 13, 17)]


def test_once__any_test__is_left_to_the_other_database() -> None:
    assert chosen("once") == chosen("once", "broad") == []


def test_skipif__any_test__runs_wherever_it_is_not_skipped() -> None:
    assert len(chosen("once", "skipif", cases=MOST_CASES + 1)) == MOST_CASES + 1


@pytest.mark.parametrize("markers", [(), ("system",)])
def test_others__few_cases__run_on_both_databases(markers: tuple[str, ...]) -> None:
    assert len(chosen(*markers, cases=MOST_CASES)) == MOST_CASES


@pytest.mark.parametrize(
    ("markers", "fixtures", "expected"),
    [
        ((), ("settings",), False),
        ((), ("settings", "db"), True),
        ((), ("transactional_db",), True),
        (("django_db",), (), True),
        (("system",), (), True),
    ],
)
def test_test__that_uses_no_database__is_left_to_the_other_one(
    markers: tuple[str, ...], fixtures: tuple[str, ...], expected: bool
) -> None:
    item: Any = Item("tests/test_it.py::test_it", *markers, fixtures=fixtures)
    assert [*choose([item])] == [item][:expected]


def test_histories__on_sqlite__are_a_tenth() -> None:
    for number, on_sqlite in ((100, 10), (12, 3), (2, 2)):
        assert number_of_examples(number, "sqlite") == on_sqlite
        assert number_of_examples(number, "postgresql") == number
