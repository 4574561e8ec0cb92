"""Evaluation in the process of an application in Node.js, by Halyard's provider.

OpenFeature's SDK alone takes longer than the provider, so it is shown beside it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.tables import print_bars
from tests.system.javascript.packages import install
from tests.system.openfeature.node import node

SCRIPT = Path(__file__).parent / "javascript" / "evaluations.mjs"
FLAGS, USERS, ROUNDS, TIMES = 100, 1_000, 25, 1_000
MOST_MILLISECONDS = 10


def run() -> bool:
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as temporary:
        folder = install(Path(temporary))
        shutil.copy(SCRIPT, folder)
        asked = {"ruleset": _ruleset(), "users": [_user(at) for at in range(USERS)], "rounds": ROUNDS, "times": TIMES}
        command = [node(), SCRIPT.name]
        done = subprocess.run(command, cwd=folder, input=json.dumps(asked), capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    assert 0.2 * TIMES < measured["on"] < 0.8 * TIMES
    print(f"Node.js: {TIMES:,} evaluations of {FLAGS} flags in process; {ROUNDS} rounds, ms of CPU")
    for name, title in (("client", "through OpenFeature's SDK"), ("provider", "by the provider alone")):
        times = measured[name]
        print(f"{title:30}{median(times):8.2f}{min(times):10.2f} - {max(times):.2f}")
    took = median(measured["provider"])
    return print_bars({f"under {MOST_MILLISECONDS} ms by the provider: {took:.1f} ms": took < MOST_MILLISECONDS})


def _user(number: int) -> dict[str, Any]:
    return {"targetingKey": f"user-{number}", "country": "CH" if number % 4 else "FR", "plan": "pro"}


def _ruleset() -> dict[str, Any]:
    """Flags of four kinds: a share with a condition, a segment, a schedule with a ramp, and a pattern."""
    country = {"attribute": "country", "operator": "in", "value": ["CH", "DE"]}
    ramp = [{"at": "2020-01-01", "percentage": 50}, {"at": "2999-01-01", "percentage": 100}]
    kinds = [
        {"type": "percentage", "percentage": 50, "conditions": [country]},
        {"type": "segment", "segment": "swiss", "percentage": 80},
        {"type": "percentage", "ramp": ramp, "startAt": "2020-01-01T00:00:00+01:00", "endAt": "2999-01-01"},
        {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "matches", "value": "^p(?:ro)?$"}]},
    ]
    flags = [{"key": f"flag-{at}", "enabled": True, "version": 1, "rules": [kinds[at % 4]]} for at in range(FLAGS)]
    segments = [{"key": "swiss", "conditions": [country], "userIds": []}]
    return {"data": {"environment": "production", "revision": 1, "flags": flags, "segments": segments}}
