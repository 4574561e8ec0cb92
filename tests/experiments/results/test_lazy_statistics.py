"""The statistics are loaded only when results are requested."""

from __future__ import annotations

import os
import subprocess
import sys

LOADED = "import django, sys; django.setup(); import config.urls; print(*sorted(sys.modules))"


def test_statistics__before_results_are_requested__are_not_loaded() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", LOADED]
    loaded = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert "experiments.api.result_views" in loaded
    assert not {"numpy", "scipy"}.intersection(loaded)
