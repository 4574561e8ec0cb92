"""Which tests need not run on every database: a fixed tenth of the broad ones, and those that are marked `once`."""

from __future__ import annotations

import zlib

import pytest

SHARE = 10
"""One in so many of the tests marked `broad` runs beside another database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--beside-another-database",
        action="store_true",
        help=f"run one in {SHARE} of the tests marked `broad` and none marked `once`: another database runs them all",
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
    if item.get_closest_marker("once"):
        return False
    return not item.get_closest_marker("broad") or is_in_share(item.nodeid)


def is_in_share(name: str) -> bool:
    """Return whether a hash puts the name into the fixed tenth."""
    return zlib.crc32(name.encode()) % SHARE == 0
