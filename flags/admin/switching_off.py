"""The question before a flag is switched off that a running experiment drives.

Switching off is never refused, because it is the way to stop harm at once. But it stops the experiment from measuring,
so the page says that first.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

from config.admin.current_environment import current_environment
from config.admin.questions import require_agreement
from config.admin.site import Confirmation, DomainAdmin
from flags.changes.driven_rules import driving_experiment
from flags.models import Flag


def ask_before_switching_off(model_admin: DomainAdmin, request: HttpRequest, flags: Sequence[Flag]) -> None:
    """Ask before these flags are switched off in the current environment, if experiments drive any that are on.

    Raises Unanswered, or DomainError if somebody declined.
    """
    driven = [flag for flag in flags if flag.enabled and driving_experiment(flag.rules)]
    if not driven:
        return
    if len(driven) == 1:
        title, verdict = f"Switch off {driven[0].key}?", "The experiment goes on. After a day, its verdict"
    else:
        title, verdict = f"Switch off {len(driven)} flags?", "The experiments go on. After a day, their verdict"
    name = current_environment(request).name
    lines = [*(_describe(flag, name) for flag in driven), f"{verdict} is to check the data."]
    # What somebody agrees to names the experiment, because by then another one may drive the flag.
    subjects = [f"{flag.key} {driving_experiment(flag.rules)}" for flag in driven]
    require_agreement(model_admin, request, subjects, Confirmation(title, lines, "Switch off"))


def _describe(flag: Flag, environment_name: str) -> str:
    served = f"the variant {flag.off_variant}" if flag.off_variant else "the answer off"
    return (
        f"The experiment {driving_experiment(flag.rules)} drives the flag {flag.key} in {environment_name}. "
        f"While the flag is off, all users get {served}, and no new users are counted."
    )
