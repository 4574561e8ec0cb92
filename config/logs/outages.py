"""What a thread logs that tries for ever: the first failure of each outage, and its end, but not each try."""

from __future__ import annotations

from logging import Logger


class OutageLog:
    """The outages of one thing, which `failing` describes while it fails, and `working` when it works again."""

    def __init__(self, logger: Logger, *, failing: str, working: str) -> None:
        self._logger = logger
        self._failing = f"{failing}, and keep trying: %s"
        self._working = working
        self._is_out = False

    def fail(self, error: Exception, *, is_defect: bool = False) -> None:
        """Note a failure. That of a defect is logged with its traceback."""
        if not self._is_out:
            self._logger.warning(self._failing, error, exc_info=error if is_defect else None)
        self._is_out = True

    def succeed(self) -> None:
        if self._is_out:
            self._logger.warning(self._working)
        self._is_out = False
