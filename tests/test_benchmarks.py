"""The benchmarks, which no other test runs, can at least be loaded, each of their modules alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "flags" / "clients" / "python"
LOAD = """
import importlib, sys
from tests.benchmarks.load import MissingTool
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except MissingTool:  # which `make bench` installs
        pass
    for loaded in [name for name in sys.modules if name.startswith("tests.") and name != MissingTool.__module__]:
        del sys.modules[loaded]
"""


def test_modules_of_benchmarks__are_loaded_without_settings() -> None:
    # A module that runs in a process of its own has settings there. `make bench` loads it, too, for its figures.
    names = [f"tests.benchmarks.{file.stem}" for file in (ROOT / "tests" / "benchmarks").glob("bench_*.py")]
    assert len(names) > 20
    environment = {"PYTHONPATH": f"{ROOT}:{CLIENT}"}
    loading = [sys.executable, "-c", LOAD, *names]
    done = subprocess.run(loading, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
