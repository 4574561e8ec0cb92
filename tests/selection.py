"""What need not run on every database.

Beside another database, which runs every test, a fixed tenth of the broad tests is enough, and tests that are marked
`once` or use no database are left out. Broad is a test with many cases, or one that is marked so. Unit tests run on
PostgreSQL beside SQLite, and system tests on SQLite beside PostgreSQL. A test that is skipped on one of them runs on
the other, whatever its marks.

Random histories test what databases compute from the same rows. PostgreSQL runs them all, and SQLite a tenth.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings

SHARE = 10
"""One in so many cases of a broad test runs beside another database, and of random histories on SQLite."""
MOST_CASES = 5
"""A test with more is broad."""

_NEEDED = frozenset({"db", "transactional_db"})
_FEWEST = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--beside-another-database",
        action="store_true",
        help=f"leave out what need not run twice: 9 in {SHARE} cases of broad tests, and tests that use no database",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The same examples in every run: a test that fails does so again, and one that passes goes on passing.
    settings.register_profile(
        "halyard",
        derandomize=True,
        deadline=None,
        max_examples=100,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("halyard")


def histories(number: int) -> settings:
    """Return the settings of a test of so many random histories, each in a transaction that the test undoes."""
    return settings(
        max_examples=number_of_examples(number, connection.vendor),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


def number_of_examples(number: int, vendor: str) -> int:
    """Return how many of so many random histories run on a database of this vendor."""
    return max(number // SHARE, min(number, _FEWEST)) if vendor == "sqlite" else number


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("beside_another_database"):
        return
    chosen = {*choose(items)}
    deselected = [item for item in items if item not in chosen]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item in chosen]


def choose(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases that run although another database runs them too: the same in every run, and one of each test."""
    cases_of: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("skipif"):
            yield item
        elif uses_database(item) and not item.get_closest_marker("once"):
            cases_of[item.nodeid.partition("[")[0]].append(item)
    for cases in cases_of.values():
        if len(cases) > MOST_CASES or any(case.get_closest_marker("broad") for case in cases):
            yield from [case for case in cases if is_in_share(case.nodeid)] or [min(cases, key=_hash)]
        else:
            yield from cases


def uses_database(item: pytest.Item) -> bool:
    """Return whether the test, or a server that it starts, may use the database."""
    if item.get_closest_marker("django_db") or item.get_closest_marker("system"):
        return True
    return not _NEEDED.isdisjoint(getattr(item, "fixturenames", ()))


def is_in_share(name: str) -> bool:
    """Return whether a hash puts the name into the fixed tenth."""
    return zlib.crc32(name.encode()) % SHARE == 0


def _hash(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode())
