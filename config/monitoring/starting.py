"""Starts the access log, traces and Sentry in a process of a server, as settings and the environment say."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings

from config.monitoring import sentry, traces
from config.monitoring.access_log import AccessLog
from config.monitoring.watching import watchers

logger = logging.getLogger(__name__)


def watch_errors() -> None:
    """Send errors of this process to Sentry if SENTRY_DSN is set."""
    if sentry.is_wanted():
        _try(sentry.start, "SENTRY_DSN is set, but errors are not sent", "sentry-sdk")


def watch_requests() -> Callable[..., None] | None:
    """Start what watches the answers of this process. Return a function to call regularly, if there is one."""
    watchers.clear()
    if traces.are_wanted():
        _try(lambda: watchers.append(traces.make_watch()), "Traces are wanted, but none is sent", "opentelemetry-sdk")
    access_log = make_access_log()
    if access_log is None:
        return None
    watchers.append(access_log.add)
    return access_log.write


def make_access_log() -> AccessLog | None:
    """Return a new access log, or None if settings switch it off."""
    return AccessLog(settings.LOG_FORMAT) if settings.ACCESS_LOG else None


def _try(start: Callable[[], None], complaint: str, package: str) -> None:
    try:
        start()
    except ImportError:
        logger.warning("%s: install the package %s, see the guide", complaint, package)
    except Exception as error:  # such as an invalid address: the service must go on
        logger.warning("%s: %s", complaint, error)
