"""Static files, compressed once, at addresses that change with their content, so that browsers keep them.

All of them share one version, because modules of JavaScript and style sheets name each other by relative addresses.
A server makes copies when it starts. So an upgrade of the code does not change what an older version's address answers.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.management.commands.collectstatic import Command
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.management import call_command
from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedStaticFilesStorage

logger = logging.getLogger(__name__)

_MAX_VERSIONS = 3
"""Pages that an older process has made, just before an upgrade, still find their files."""
_NOT_COPIED = ["*.map", "rest_framework"]
"""What no page loads."""


class VersionedStorage(StaticFilesStorage):
    """Gives the addresses of the copies, or those of the files themselves if there are no copies."""

    def __init__(self) -> None:
        version = provide_copies()
        super().__init__(base_url=f"{settings.STATIC_URL}{version}/" if version else settings.STATIC_URL)


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Serves the copies, and the files themselves. Each has a header that says how long it may be kept."""

    def __init__(self, get_response: Any) -> None:
        provide_copies()  # before they are looked for
        super().__init__(get_response)
        self._versioned = re.compile(settings.WHITENOISE_IMMUTABLE_FILE_TEST)

    def __call__(self, request: HttpRequest) -> Any:
        # Another host may have made the page, and run another version of the code. The next best are the files of this.
        if not self.autorefresh and request.path_info not in self.files:
            static_file = self.files.get(self._versioned.sub(self.static_prefix, request.path_info))
            if static_file is not None:
                return self.serve(static_file, request)
        return super().__call__(request)


@cache
def provide_copies() -> str:
    """Return the version of the static files, after copies of it were made if there are none yet.

    Return an empty text if files may change at any time, or if copies cannot be written.
    """
    if settings.WHITENOISE_AUTOREFRESH:
        return ""
    version, root = _version_of_files(), Path(settings.STATIC_ROOT)
    try:
        root.mkdir(exist_ok=True)
        if not (root / version).is_dir():
            _copy(root / version)
        os.utime(root / version)
        _remove_old_versions(root)
    except OSError as error:
        words = "The static files cannot be copied to %s: %s. They are served without compression."
        logger.error(words, root, error.strerror or error)
        return ""
    return version


def _version_of_files() -> str:
    digest = sha256()
    for finder in get_finders():
        for name, storage in sorted(finder.list(None), key=lambda file: file[0]):
            digest.update(f"{getattr(storage, 'prefix', None)}/{name}\n".encode())
            digest.update(Path(storage.path(name)).read_bytes())
    return digest.hexdigest()[:16]


def _copy(folder: Path) -> None:
    """Copy and compress all files. The folder appears once it is complete, whatever else starts at the same time."""
    with TemporaryDirectory(dir=settings.RUNTIME_DIR, prefix="static-") as new:
        command = Command()
        command.storage = CompressedStaticFilesStorage(location=f"{new}/files")
        call_command(command, interactive=False, verbosity=0, ignore_patterns=_NOT_COPIED)
        try:
            Path(new, "files").replace(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _remove_old_versions(root: Path) -> None:
    versions = sorted(root.iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in versions[:-_MAX_VERSIONS]:
        shutil.rmtree(folder, ignore_errors=True)
