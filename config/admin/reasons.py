"""The reason of a change: whether the admin asks for it, and what was typed.

The setting of an environment applies to what belongs to it. For what all environments share, the strictest setting
applies. The API does not require reasons.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from config.admin.current_environment import current_environment, environments_of
from config.admin.kept_input import sent_input
from config.models import Environment, ReasonSetting
from config.slugs import REASON_LENGTH

_STRICTNESS = list(ReasonSetting)


def reason_setting(model_admin: Any, request: HttpRequest, environment: Environment | None = None) -> ReasonSetting:
    """Return whether pages of a model ask for a reason. `environment` is the current one by default."""
    written = (
        [environment or current_environment(request)] if model_admin.is_environmental else environments_of(request)
    )
    return max((ReasonSetting(environment.change_reason) for environment in written), key=_STRICTNESS.index)


def reason_of(request: HttpRequest) -> str:
    """Return the reason from a confirmation page."""
    return sent_input(request).get("reason", "").replace("\0", "")[:REASON_LENGTH]


def lacks_reason(request: HttpRequest, setting: ReasonSetting) -> bool:
    return setting is ReasonSetting.REQUIRED and not reason_of(request).strip()
