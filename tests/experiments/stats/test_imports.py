"""The imports and memory of a process that computes statistics."""

from __future__ import annotations

import subprocess
import sys

LOADED = "import sys, experiments.stats.analysis; print(*sorted(sys.modules))"


def test_analysis__imported__loads_neither_scipy_stats_nor_django():
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert "scipy.special" in loaded
    assert not [name for name in loaded if name.startswith(("scipy.stats", "scipy.optimize", "django", "pandas"))]
