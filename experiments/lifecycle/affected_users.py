"""How many recent users see something else when an experiment starts or ships a variant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from config.errors import DomainError
from experiments.lifecycle import flag_rule
from experiments.models import Experiment, Status
from flags.changes.experiment_rules import ShipTo
from flags.usage.comparison import Preview
from flags.usage.previews import NoSample, preview_changes

Affected = Preview | NoSample


def affected_by_start(experiment: Experiment, now: datetime) -> Affected | None:
    """Return how many recent users the start affects, or why that is not known; None without a flag.

    Raises ValidationFailed if the flag cannot be driven.
    """
    flag = flag_rule.flag_from_start(experiment)
    if flag is None:
        return None
    previews = preview_changes(experiment.environment, changed=[flag], now=now)
    return previews if isinstance(previews, NoSample) else previews[0]


def affected_by_shipping(
    experiment: Experiment,
    winners: Collection[str],
    now: datetime,
    *,
    holdback: float = 0,
    ship_to: str | None = None,
    enable: bool | None = None,
) -> Mapping[str, Affected]:
    """Return how many recent users each of these winners affects, or why that is not known.

    Variants whose shipping would be refused are left out. A flag that is off changes for nobody, unless `enable`
    switches it on, which also brings its other rules into force.
    """
    if experiment.status != Status.RUNNING or not (experiment.flag and (enable or flag_rule.is_on(experiment))):
        return {}
    try:
        users = ShipTo(ship_to or ShipTo.AUDIENCE)
        flags = [flag_rule.flag_shipped(experiment, winner, holdback, users) for winner in winners]
        previews = preview_changes(
            experiment.environment,
            changed=flags,
            now=now,
            members=flag_rule.flag_switched_on(experiment),
            testers=experiment.forced_variants,
        )
    except (DomainError, ValueError):  # ValueError: not an audience, or not a percentage
        return {}
    return (
        dict.fromkeys(winners, previews)
        if isinstance(previews, NoSample)
        else dict(zip(winners, previews, strict=True))
    )


def describe_affected(preview: Preview, when: str) -> str:
    """Return a sentence such as "Of 1,240 users seen since 24 Jan 2026, 610 (49.2 %) see something else from the
    start."

    `when` is the end of the sentence.
    """
    users = f"{preview.users:,} user{'' if preview.users == 1 else 's'} seen since {preview.since:%-d %b %Y}"
    sampled = "" if preview.all_users == preview.users else f", a sample of about {preview.all_users:,}"
    share = f" ({100 * preview.share:.1f} %)" if preview.changed else ""
    return f"Of {users}{sampled}, {preview.changed:,}{share} see something else {when}."
