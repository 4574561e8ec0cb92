"""What need not run on every database: a fixed tenth of the broad tests and of the examples of random ones is enough
beside another database, and tests that are marked `once` or use no database run on that one alone.
"""

from __future__ import annotations

import zlib

import pytest
from hypothesis import HealthCheck, settings

SHARE = 10
"""One in so many of the tests marked `broad`, and of the examples of Hypothesis, runs beside another database."""

_NEEDED = frozenset({"db", "transactional_db"})
_FEWEST = 3

_is_beside_another = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--beside-another-database",
        action="store_true",
        help=f"leave out what need not run twice: 9 in {SHARE} broad tests, and those that use no database",
    )


def pytest_configure(config: pytest.Config) -> None:
    global _is_beside_another
    _is_beside_another = config.getoption("beside_another_database")
    # The same examples in every run: a test that fails does so again, and one that passes goes on passing.
    settings.register_profile(
        "halyard",
        derandomize=True,
        deadline=None,
        max_examples=number_of_examples(100),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("halyard")


def number_of_examples(number: int) -> int:
    """Return how many of so many random examples run on this database."""
    return max(number // SHARE, min(number, _FEWEST)) if _is_beside_another else number


def histories(number: int) -> settings:
    """Return the settings of a test of so many random histories, each in a transaction that the test undoes."""
    return settings(
        max_examples=number_of_examples(number), suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("beside_another_database"):
        return
    deselected = [item for item in items if not is_chosen(item)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if is_chosen(item)]


def is_chosen(item: pytest.Item) -> bool:
    """Return whether the test runs although another database runs it too. The answer is the same in every run."""
    if item.get_closest_marker("once") or not uses_database(item):
        return False
    return not item.get_closest_marker("broad") or is_in_share(item.nodeid)


def uses_database(item: pytest.Item) -> bool:
    """Return whether the test, or a server that it starts, may use the database."""
    if item.get_closest_marker("django_db") or item.get_closest_marker("system"):
        return True
    return not _NEEDED.isdisjoint(getattr(item, "fixturenames", ()))


def is_in_share(name: str) -> bool:
    """Return whether a hash puts the name into the fixed tenth."""
    return zlib.crc32(name.encode()) % SHARE == 0
