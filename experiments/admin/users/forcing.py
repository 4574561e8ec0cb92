"""Forcing a variant for one user, or no longer, from the page of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from config.admin.current_environment import current_environment
from config.admin.kept_input import sent_input
from config.admin.questions import require_agreement
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.admin.site import Confirmation, DomainAdmin, writer_here
from config.change_log.named_users import fill, name_user
from config.errors import DomainError, ErrorCode
from experiments.api.permissions import may_write_flag, require_flag
from experiments.lifecycle.changes import get_experiment, update_experiment
from experiments.models import Experiment, Exposure, Status


@dataclass(frozen=True, slots=True)
class Choice:
    """An experiment, and what a form sends for each of its variants, with the name of the variant."""

    experiment: str
    variants: Sequence[tuple[str, str]]


def choices_to_force(request: HttpRequest, experiments: Sequence[Experiment]) -> list[Choice]:
    """Return the drafts and running experiments in which the person may force variants, with their variants."""
    current = (
        experiment
        for experiment in experiments
        if experiment.status != Status.STOPPED and experiment.archived_at is None
    )
    return [
        Choice(experiment.key, [(f"{experiment.key}:{key}", key) for key in experiment.variant_keys])
        for experiment in current
        if experiment.status == Status.DRAFT or may_write_flag(request.user, experiment)
    ]


def force_variant(model_admin: DomainAdmin, request: HttpRequest, user_id: str) -> str:
    """Force the variant that was sent as `experiment:variant`, or none for an empty variant. Return what was done.

    If this takes the user out of results that count them, it asks first. Raises DomainError.
    """
    key, _, variant = sent_input(request).get("forced", "").partition(":")
    if not key:
        raise DomainError(ErrorCode.VALIDATION_FAILED, "Choose a variant.")
    experiment = get_experiment(key, current_environment(request))
    if experiment.status == Status.RUNNING:
        require_flag(request.user, experiment)
    if variant not in ("", *experiment.variant_keys):
        raise DomainError(ErrorCode.VALIDATION_FAILED, f"{key} has no such variant. Choose one in the list.")
    _ask_before_forcing(model_admin, request, experiment, user_id, variant)
    forced = {other: forced for other, forced in experiment.forced_variants.items() if other != user_id}
    update_experiment(
        key=key,
        changes={"forced_variants": {**forced, **({user_id: variant} if variant else {})}},
        if_match=experiment.etag,
        reason=reason_of(request),
        **writer_here(request),
    )
    if variant:
        return f"{user_id} sees {variant} in {key} from now on, and does not count in its results."
    return f"No variant is forced for {user_id} in {key} any more."


def _ask_before_forcing(
    model_admin: DomainAdmin, request: HttpRequest, experiment: Experiment, user_id: str, variant: str
) -> None:
    """Ask if the results no longer count the user, if a reason is missing, or after signing in again."""
    consequences = _consequences(experiment, user_id) if variant else ()
    must_answer = request.method != "POST" or lacks_reason(request, reason_setting(model_admin, request))
    if not consequences and not must_answer:
        return
    title, button = (
        (fill("Force {} for {}?", variant, name_user(user_id)), f"Force {variant}")
        if variant
        else (fill("Force no variant for {} any more?", name_user(user_id)), "Force no variant")
    )
    confirmation = Confirmation(title, consequences, button, subjects=[f"{experiment.key}:{variant}"])
    require_agreement(model_admin, request, confirmation)


def _consequences(experiment: Experiment, user_id: str) -> tuple[str, ...]:
    exposure = Exposure.objects.filter(experiment=experiment, user_id=user_id).first()
    if experiment.frozen_at is not None or exposure is None:
        return ()
    return (
        f"The user counts in {experiment.key} for {exposure.variant} now. The exposure is deleted, and the results "
        "no longer count what the user did.",
        "If you stop forcing the variant later, the exposure does not come back.",
    )
