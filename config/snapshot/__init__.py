"""The compiled configuration of this process, so that an evaluation reads no database.

Each app registers a `Table`. `refresh()` brings all tables up to date with the change log. If the database does not
answer, the last known state stays in use.
"""

from config.snapshot.freshness import (
    catch_up_to,
    is_loaded,
    lateness,
    look,
    refresh,
    require_current_keys,
    reset,
    staleness,
)
from config.snapshot.tables import Lateness, Table, revision, start_yielding_cpu, yield_cpu

__all__ = [
    "Lateness",
    "Table",
    "catch_up_to",
    "is_loaded",
    "lateness",
    "look",
    "refresh",
    "require_current_keys",
    "reset",
    "revision",
    "staleness",
    "start_yielding_cpu",
    "yield_cpu",
]
