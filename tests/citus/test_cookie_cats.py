"""The published A/B test of Cookie Cats with its 90,189 players, on Citus and on PostgreSQL: every figure agrees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest

from tests.citus.cluster import own_citus
from tests.system.cluster import own_cluster
from tests.system.server import Server, serving

pytestmark = pytest.mark.citus

PLAYERS = {
    ("gate_30", False, False): 22_840,
    ("gate_30", False, True): 1_826,
    ("gate_30", True, False): 13_358,
    ("gate_30", True, True): 6_676,
    ("gate_40", False, False): 23_597,
    ("gate_40", False, True): 1_773,
    ("gate_40", True, False): 13_613,
    ("gate_40", True, True): 6_506,
}
"""By the variant, and by whether the player came back after one day and after seven."""
METRICS = ("retention_7", "retention_1")
A_BATCH = 1000
VARIANTS = [{"key": key, "weight": 50} for key in ("gate_30", "gate_40")]
EXPERIMENT = {"key": "cats", "variants": VARIANTS, "metrics": [*METRICS]}


@contextmanager
def served(folder: Path, url: str, *, is_distributed: bool) -> Iterator[Server]:
    folder.mkdir()
    prepared = Server(folder, url)
    prepared.prepare()
    if is_distributed:
        prepared.run("manage.py", "distribute")
    with serving(folder, url, keys=prepared.keys) as running:
        yield running


def events() -> list[dict[str, Any]]:
    """Exposures and returns, in an order that is the same for both databases."""
    chance, found = Random(7), []
    players = [cell for cell, number in PLAYERS.items() for _ in range(number)]
    for number, (variant, *returned) in enumerate(players):
        user_id = f"player-{number}"
        found.append(
            {"event": "install", "userId": user_id, "properties": {"experimentId": "cats", "variant": variant}}
        )
        names = (name for name, has_returned in zip(reversed(METRICS), returned, strict=True) if has_returned)
        found += [{"event": name, "userId": user_id, "properties": {"experimentId": "cats"}} for name in names]
    chance.shuffle(found)
    return [
        {**event, "id": str(uuid5(NAMESPACE_URL, f"{event['event']}/{event['userId']}"))}
        for event in sorted(
            found, key=lambda event: event["event"] != "install"
        )  # who was not exposed yet counts later
    ]


def replay(server: Server) -> Any:
    """Send everything in batches, some of them twice, and return the results."""
    every = events()
    with server.client() as client:
        for key in METRICS:
            client.post("/v1/metrics", json={"key": key, "type": "conversion", "event": key}).raise_for_status()
        client.post("/v1/experiments", json=EXPERIMENT).raise_for_status()
        client.post("/v1/experiments/cats/start").raise_for_status()
        for at in range(0, len(every), A_BATCH):
            for _ in range(2 if at % 10_000 == 0 else 1):
                answer = client.post("/v1/events/batch", json={"events": every[at : at + A_BATCH]})
                assert {each["status"] for each in answer.json()["data"]} <= {"accepted", "duplicate"}
        results = client.get("/v1/experiments/cats").json()["data"]["results"]
    assert "match the events" in server.run("manage.py", "check_results")
    return results


def test_results__of_all_players__are_those_of_postgresql_and_those_published(tmp_path: Path) -> None:
    with own_citus() as citus, served(tmp_path / "citus", citus.make_database("cats"), is_distributed=True) as server:
        on_citus = replay(server)
    with own_cluster() as cluster, served(tmp_path / "plain", cluster.url, is_distributed=False) as server:
        on_postgresql = replay(server)
    assert on_citus == on_postgresql
    for variant, players, returned in (("gate_30", 44_700, 8_502), ("gate_40", 45_489, 8_279)):
        assert on_citus[variant]["sampleSize"] == players
        assert on_citus[variant]["conversion"] == pytest.approx(returned / players, abs=1e-9)
