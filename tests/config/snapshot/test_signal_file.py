"""The integer that processes share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.snapshot import signal_file


def test_poke__each_time__is_another_integer() -> None:
    seen = set()
    for _ in range(100):
        signal_file.signal_change()
        seen.add(signal_file.read())

    assert len(seen) == 100


def test_poke__of_another_process__is_read_here(settings: Any) -> None:
    before = signal_file.read()
    path = settings.RUNTIME_DIR / "signal"
    subprocess.run([sys.executable, "-c", f"open({str(path)!r}, 'r+b').write(b'somebody')"], check=True)

    assert signal_file.read() != before
    assert signal_file.read().to_bytes(8, sys.byteorder) == b"somebody"


def test_reopen__file_still_there__changes_nothing() -> None:
    signal_file.signal_change()
    before = signal_file.read()
    signal_file.reopen_if_replaced()

    assert signal_file.read() == before


def test_reopen__folder_removed__shares_the_file_made_anew(settings: Any) -> None:
    signal_file.signal_change()
    before = signal_file.read()
    shutil.rmtree(settings.RUNTIME_DIR)
    signal_file.reopen_if_replaced()

    assert signal_file.read() != before
    assert (settings.RUNTIME_DIR / "signal").stat().st_size == 8


def test_file__new_one__has_its_place_on_the_disk(settings: Any, tmp_path: Path) -> None:
    """Otherwise, the memory could not be written once the disk is full, and the system would kill the process."""
    settings.RUNTIME_DIR = tmp_path
    signal_file.reopen_if_replaced()
    try:
        assert (tmp_path / "signal").stat().st_blocks > 0
    finally:
        signal_file._shared.cache_clear()
