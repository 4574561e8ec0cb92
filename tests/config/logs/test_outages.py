"""An outage is logged when it begins and when it ends, however often something fails meanwhile."""

from __future__ import annotations

import logging

import pytest

from config.logs.outages import OutageLog


def test_outage_log__two_outages__has_the_beginning_and_the_end_of_each(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog(logging.getLogger("config.x"), failing="Cannot store", working="Stored again")
    outages.succeed()
    for problem in ("first", "second"):
        for _ in range(3):
            outages.fail(OSError(problem))
        outages.succeed()
        outages.succeed()
    assert caplog.messages == [
        "Cannot store, and keep trying: first",
        "Stored again",
        "Cannot store, and keep trying: second",
        "Stored again",
    ]
