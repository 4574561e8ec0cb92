"""Sends logged errors to Sentry, with the id of the request but none of its content.

It needs the extra `sentry`, and is on if SENTRY_DSN is set. The SDK also reads SENTRY_ENVIRONMENT and SENTRY_RELEASE.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from config.monitoring.log_lines import without_secrets
from config.monitoring.request_ids import current_request_id


def is_wanted() -> bool:
    return bool(os.environ.get("SENTRY_DSN"))


def start(transport: Any = None) -> None:
    """Send errors of this process from now on. Raises ImportError without the extra."""
    import sentry_sdk  # noqa: PLC0415 (optional)
    from sentry_sdk.integrations.dedupe import DedupeIntegration  # noqa: PLC0415
    from sentry_sdk.integrations.excepthook import ExcepthookIntegration  # noqa: PLC0415
    from sentry_sdk.integrations.logging import LoggingIntegration  # noqa: PLC0415

    sentry_sdk.init(
        default_integrations=False,  # those of Django and the database would slow down every request
        integrations=[
            LoggingIntegration(level=logging.INFO, event_level=logging.ERROR),
            DedupeIntegration(),
            ExcepthookIntegration(),
        ],
        include_local_variables=False,  # they may hold keys, and attributes of users
        before_send=_clean,
        transport=transport,
    )


def _clean(event: Any, _hint: Any) -> Any:
    request = current_request_id()
    if request is not None:
        event.setdefault("tags", {})["request"] = request
    return _cleaned(event)


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {name: _cleaned(item) for name, item in value.items()}
        case list():
            return [_cleaned(item) for item in value]
        case _:
            return value
