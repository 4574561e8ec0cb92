"""The permission for steps of an experiment that drives a flag: the user must be allowed to change flags."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied

from experiments.models import Experiment

CHANGE_FLAG = "flags.change_flag"


def may_write_flag(user: Any, experiment: Experiment) -> bool:
    """Return whether a signed-in user may write the rules of the flag that the experiment drives, if any."""
    return not experiment.flag or bool(user.has_perm(CHANGE_FLAG))


def require_flag(user: Any, experiment: Experiment) -> None:
    """Raise PermissionDenied unless the user may write the rules of the experiment's flag."""
    if not may_write_flag(user, experiment):
        message = f"The experiment drives a flag, and your user lacks the permission {CHANGE_FLAG}; "
        raise PermissionDenied(f"{message}ask an administrator for it.")
