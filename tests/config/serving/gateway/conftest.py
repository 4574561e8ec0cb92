from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.models import Scope
from tests.config.api.wire import own_connection
from tests.config.serving.gateway.servers import Flag, Server
from tests.factories import FlagFactory, KeyFactory
from tests.threads import Threads


@pytest.fixture
def server(threads: Threads) -> Iterator[Server]:
    FlagFactory(key="f", on=True)
    with own_connection():
        yield Server(threads, KeyFactory(scope=Scope.MANAGE)[1], Flag())
