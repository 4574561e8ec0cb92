"""The imports and memory of a process that computes statistics."""

from __future__ import annotations

import subprocess
import sys

LOADED = "import sys, {}; print(*sorted(sys.modules))"


def modules_after(imported: str) -> list[str]:
    """Return the modules that a process of its own has loaded after an import."""
    command = [sys.executable, "-c", LOADED.format(imported)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_analysis__imported__loads_neither_scipy_stats_nor_django() -> None:
    loaded = modules_after("experiments.stats.analysis")
    assert "scipy.special" in loaded
    assert not [name for name in loaded if name.startswith(("scipy.stats", "scipy.optimize", "django", "pandas"))]


def test_server__started__has_not_loaded_what_only_results_need() -> None:
    loaded = modules_after("config.serving.worker, config.serving.stream_worker")
    assert "experiments.admin" in loaded
    assert not {"numpy", "scipy"} & {*loaded}
