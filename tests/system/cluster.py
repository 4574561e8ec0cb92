"""A PostgreSQL cluster of a test's own, which it may stop, crash and leave without room, and a disk
that is small.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.system.server import free_port

_PROGRAMS = ("initdb", "pg_basebackup", "pg_ctl")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "fsync": "on",
    "shared_buffers": "64MB",
}


class Cluster:
    """A PostgreSQL cluster in a folder, which belongs to the account that runs it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.data = folder / "data"
        self.log = folder / "postgresql.log"
        self.port = free_port()
        self.settings = {**_SETTINGS, **settings, "port": str(self.port)}

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def make(self, *options: str) -> None:
        chosen = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", *options]
        _run("initdb", f"--pgdata={self.data}", *chosen)
        self._configure()

    def copy_files(self, files: Path) -> None:
        """Make it from those of a cluster that was stopped, which takes less time."""
        subprocess.run(["cp", "--archive", str(files), str(self.data)], check=True)
        self._configure()

    def copy(self, primary: Cluster) -> None:
        """Make it a standby, which streams from the primary."""
        source = ["--host=127.0.0.1", f"--port={primary.port}", "--username=postgres"]
        _run(
            "pg_basebackup", f"--pgdata={self.data}", *source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"
        )
        self._configure()

    def _configure(self) -> None:
        with (self.data / "postgresql.auto.conf").open("a") as file:  # the last value of a setting counts
            file.writelines(f"{name} = '{value}'\n" for name, value in self.settings.items())

    def promote(self) -> None:
        """Have a standby take over as a primary."""
        _run("pg_ctl", "promote", "--wait", f"--pgdata={self.data}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        _run("pg_ctl", "start", "--wait", f"--pgdata={self.data}", f"--log={self.log}")

    def stop(self, mode: str) -> None:
        """`immediate` is a crash: nothing is written any more, and all connections break."""
        _run("pg_ctl", "stop", "--wait", f"--pgdata={self.data}", f"--mode={mode}")

    def signal(self, number: int) -> None:
        """Send a signal to each of its processes."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        for pid in [*map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split()), first]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def has_ended(self) -> bool:
        return not (self.data / "postmaster.pid").exists()

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/{database}", autocommit=True)


@contextmanager
def own_cluster(*options: str, files: Path | None = None, **settings: str) -> Iterator[Cluster]:
    """A cluster that runs, made with options of initdb or from the files of another, and with settings. Nothing is left
    of it afterwards.
    """
    with own_folder() as folder:
        cluster = Cluster(folder, **settings)
        if files is None:
            cluster.make(*options)
        else:
            cluster.copy_files(files)
        try:
            cluster.start()
            yield cluster
        finally:
            if not cluster.has_ended():
                cluster.stop("immediate")


@contextmanager
def own_standby(primary: Cluster) -> Iterator[Cluster]:
    """A standby of a cluster, as long as the block runs."""
    with own_folder() as folder:
        standby = Cluster(folder)
        standby.copy(primary)
        try:
            standby.start()
            yield standby
        finally:
            if not standby.has_ended():
                standby.stop("immediate")


@contextmanager
def own_folder() -> Iterator[Path]:
    """Return a folder for the account that runs clusters, outside the tests' own folder, which it
    cannot read.
    """
    folder = Path(tempfile.mkdtemp(prefix="halyard-cluster-"))
    try:
        _give_away(folder)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """A file system of this size. Skips the test where none can be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "halyard-test", str(disk)]
        subprocess.run(mount, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted here, which takes root's rights: {error}")
    try:
        _give_away(disk)
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True, capture_output=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Within the block, a small disk has no room left."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file, suppress(OSError):  # others write meanwhile: to the very end
            while file.write(bytes(2**16)):
                pass
        yield
    finally:
        ballast.unlink()


def _give_away(folder: Path) -> None:
    if account := _account():
        os.chown(folder, account.pw_uid, account.pw_gid)


@cache
def _account() -> pwd.struct_passwd | None:
    """Return the account that runs PostgreSQL, because root cannot. None is the account that runs
    the tests.
    """
    if os.geteuid():
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


@cache
def _binaries() -> Path:
    """Where PostgreSQL's commands are: on the path, where pg_config says so, or where Debian keeps
    them.
    """
    named = [Path(found).parent for found in [shutil.which("initdb")] if found]
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True)
        named.append(Path(asked.stdout.strip()))
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    for folder in (*named, *reversed(packaged)):
        if all((folder / name).exists() for name in _PROGRAMS):
            return folder
    raise AssertionError("These tests run PostgreSQL themselves: install it, and have its programs on the PATH.")


def owner() -> dict[str, Any]:
    """Return the options that start a process as the account that runs PostgreSQL."""
    account = _account()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


def _run(name: str, *arguments: str) -> None:
    command = [str(_binaries() / name), *arguments]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, **owner())
    assert done.returncode == 0, done.stdout + done.stderr
