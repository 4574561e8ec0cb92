"""Durability: everything acknowledged is stored after the server was killed, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.system.recorders import check, recording
from tests.system.server import Server

pytestmark = pytest.mark.system


def test_server__killed_while_clients_record__loses_nothing(start_server: Callable[..., Server]) -> None:
    server = start_server()
    with recording(server) as ledger:
        for _ in range(4):
            server.kill()
            server.start()
            ledger.wait_for_progress()
    check(ledger, server)
