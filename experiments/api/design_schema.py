"""How the OpenAPI document describes what an experiment is made of. `experiments.design` checks it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from config.answers import KEY, Answer, Key, Moment, Name, described, one_of, shaped
from config.api.schema import Schema
from config.api.structs import schema_of
from experiments.design.audience import MOST_USERS
from experiments.models import Direction
from flags.api.rule_schema import CONDITIONS as CONDITIONS_OF_RULES
from flags.engine.experiment_rule import MOST_FORCED

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


class Registration(Answer):
    """What the start fixed, before any results.

    Left out if it follows from `metrics`: the first one decides, an increase is good, and there is no window and no
    planned sample size.
    """

    primary_metric: Annotated[str | None, described("The first goal among the metrics.")]
    direction: Annotated[str, one_of(Direction.values)] | None
    window_hours: int | None
    metrics: list[Name]
    planned_sample_size: int | None


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
    "maxProperties": MOST_FORCED,
    "description": "The variants that testers see, by user id. Testers are not in the results.",
}
DRIVEN_FLAG = schema_of(DrivenFlag)
PLANNED: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_USERS,
    "description": "The number of users, in all variants together, that the experiment should have before a decision.",
}
REGISTRATION = schema_of(Registration)
PHASES: Schema = {
    **schema_of(list[Phase]),
    "description": "It is left out if there is only one phase, which includes all users.",
}
