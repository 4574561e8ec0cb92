"""How the OpenAPI document describes what an experiment is made of. `experiments.models.design_checks` checks it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from config.answers import KEY, Answer, Key, Moment, Name, described, one_of, shaped
from config.api.schema import Schema
from config.api.structs import schema_of
from experiments.models import LOOKBACK_DAYS, MINIMUM_DAYS, AnalysisMethod, Direction
from experiments.models.plan import (
    MAX_DAYS,
    MAX_EFFECT,
    MAX_LOOKBACK_DAYS,
    MAX_TUNING_SIZE,
    MAX_USERS,
    MIN_TUNING_SIZE,
)
from flags.api.rule_schema import CONDITIONS as CONDITIONS_OF_RULES
from flags.changes.experiment_rules import ShipTo
from flags.validation.rules import MAX_FORCED, MAX_RULES

_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.001}
_Share = Annotated[float, shaped(_SHARE)]
_SERVED: Schema = {"additionalProperties": {"anyOf": [KEY, {"type": "boolean"}]}}


class Variant(Answer):
    """A variant and its share of the users."""

    key: Key
    weight: Annotated[float, Meta(ge=0), described("Relative to the sum of all, which need not be 1 or 100.")]


class ExperimentGroup(Answer):
    """The experiment's share, in percent of the users, of a group. No user is in two experiments of a group.

    No other experiment gets this share until the experiment stops.
    """

    key: Key
    start: _Share = field(name="from")
    end: Annotated[_Share, described("Above `from`.")] = field(name="to")


class DrivenFlag(Answer):
    """The flag that the experiment drives while it runs."""

    key: Key
    serves: Annotated[
        dict[str, Any],
        shaped(_SERVED),
        described("For each variant of the experiment, a variant of the flag; true or false if it has no variants."),
    ]
    position: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_RULES)] | UnsetType,
        described(
            "How many of the flag's rules come before the experiment's rule, at the start. Users whom one of these "
            "rules matches are not in the experiment. Default: 0."
        ),
    ] = UNSET


class Registration(Answer):
    """What the start fixed, before any results.

    Left out if it follows from `metrics`: the first one decides, an increase is good, and there is no window and no
    plan but the defaults. Experiments that started before plans existed have only the first five properties.
    """

    primary_metric: Annotated[str | None, described("The first goal among the metrics.")]
    direction: Annotated[str, one_of(Direction.values)] | None
    window_hours: int | None
    metrics: list[Name]
    planned_sample_size: int | None
    minimum_effect: float | UnsetType | None = UNSET
    analysis: Annotated[str | UnsetType, one_of(AnalysisMethod.values)] = UNSET
    minimum_days: int | UnsetType = UNSET
    lookback_days: int | UnsetType = UNSET
    tuning_sample_size: int | UnsetType = UNSET


class Phase(Answer):
    """How users are assigned from a moment on, until the next phase."""

    number: Annotated[int, Meta(ge=1)]
    started_at: Moment
    variants: list[Variant]
    percentage: _Share
    conditions: Annotated[list[Any], shaped(CONDITIONS_OF_RULES)]
    reason: str


VARIANT = schema_of(Variant)
PERCENTAGE: Schema = {
    **_SHARE,
    "description": "The share of the users in the audience that takes part. It is left out if it is the default, 100.",
}
CONDITIONS: Schema = {**CONDITIONS_OF_RULES, "description": "The conditions that users must meet to take part."}
GROUP = schema_of(ExperimentGroup)
FORCED: Schema = {
    "type": "object",
    "additionalProperties": KEY,
    "maxProperties": MAX_FORCED,
    "description": "The variants that testers see, by user id. Testers are not in the results.",
}
DRIVEN_FLAG = schema_of(DrivenFlag)
SHIP_TO: Schema = {
    "type": "string",
    "enum": [*ShipTo],
    "description": "To whom the flag serves the winner. `audience`, the default: to the users who meet the "
    "experiment's conditions, in its group and percentage; the other rules of the flag stay. `everyone`: to all "
    "users; the other rules are removed, which requires a reason. It requires a winner and a flag.",
}
PLANNED: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_USERS,
    "description": "The number of users, in all variants together, that the experiment should have before a decision.",
}
MINIMUM_EFFECT: Schema = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_EFFECT,
    "description": "The smallest effect that matters, as a share of the control's value: 0.05 is 5 %, up or down. Once "
    "the planned number of users is reached, an interval of the lift within it means `no_difference`.",
}
ANALYSIS: Schema = {
    "type": "string",
    "enum": AnalysisMethod.values,
    "description": "`sequential`, the default, can be read every day. `fixed` is read once, when every variant has its "
    "planned number of users; it requires `plannedSampleSize`. It is left out if it is the default.",
}
MINIMUM_DAYS_OF_RUN: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_DAYS,
    "description": "The shortest run in days. Before it is over, the verdict recommends no variant. It is left out if "
    f"it is the default, {MINIMUM_DAYS}.",
}
DAYS_OF_LOOKBACK: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_LOOKBACK_DAYS,
    "description": "How many days before each user's exposure are used to reduce the variance (CUPED); 0 switches "
    f"that off. It is left out if it is the default, {LOOKBACK_DAYS}.",
}
TUNING_SIZE_OF_INTERVALS: Schema = {
    "type": "integer",
    "minimum": MIN_TUNING_SIZE,
    "maximum": MAX_TUNING_SIZE,
    "description": "The number of users, in the control and one treatment together, at which the always-valid "
    "intervals are narrowest. If it is not sent, it follows from `plannedSampleSize` and the weights; without a plan "
    "it is 5,000, and left out.",
}
REGISTRATION = schema_of(Registration)
PHASES: Schema = {
    **schema_of(list[Phase]),
    "description": "It is left out if there is only one phase, which includes all users.",
}
