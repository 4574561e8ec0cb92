"""What `manage.py doctor` says of tables that are spread."""

from __future__ import annotations

import pytest

from config.management import database_examinations
from config.management.database_examinations import examine_distribution
from config.management.examinations import Options

pytestmark = [pytest.mark.django_db, pytest.mark.distributed]


@pytest.mark.parametrize(
    ("levels", "command"),
    [
        (["logical"], "Execute SELECT citus_rebalance_start()."),
        (["replica"], "Execute SELECT citus_rebalance_start(shard_transfer_mode := 'block_writes');"),
        (["logical", "replica"], "Execute SELECT citus_rebalance_start(shard_transfer_mode := 'block_writes');"),
    ],
)
def test_examination__shards_to_move__names_a_command_that_the_workers_allow(
    monkeypatch: pytest.MonkeyPatch, levels: list[str], command: str
) -> None:
    monkeypatch.setattr(database_examinations, "_MOVES", "SELECT 3")
    monkeypatch.setattr(database_examinations, "_LEVELS", f"SELECT unnest(ARRAY{levels})")
    *_, finding = examine_distribution(Options())
    assert finding.words == "3 shards would be better on other workers."
    assert finding.remedy.startswith(command)


def test_examination__workers__say_whether_they_decode() -> None:
    assert {level for (level,) in database_examinations._rows(database_examinations._LEVELS)} <= {
        "replica",
        "logical",
        "minimal",
    }
