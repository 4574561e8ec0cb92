"""Durability: everything acknowledged is stored after the server was killed, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.system.server import Server
from tests.system.traffic import traffic

pytestmark = [pytest.mark.system, pytest.mark.faults]


def test_server__killed_while_clients_record__loses_nothing(start_server: Callable[..., Server]) -> None:
    server = start_server()
    with traffic(server, kills=8, restarts=True) as ledger:
        for _ in range(4):
            server.kill()
            server.start()
            ledger.wait_for_progress()
