"""The explanation of one figure as JSON and in the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from config.api.structs import Answer, Count, Key, Moment, Name, Share, described, one_of
from config.documents import Document
from config.timestamps import format_timestamp
from experiments.api.metric_serializers import MetricDefinition
from experiments.api.result_metrics import definition_as_json
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment

_STEPS = (
    *(
        "events_of_the_name",
        "by_exposed_users",
        "by_mature_users",
        "of_the_experiment",
        "after_exposure",
        "in_the_window",
    ),
    *("before_the_stop", "with_the_properties", "of_the_currency", "with_the_value"),
    *("passed_the_step", "counted"),
)


class ExplanationStep(Answer):
    """The events that remain after one condition. Conditions that the metric does not have are left
    out.
    """

    name: Annotated[str, one_of(_STEPS)]
    description: str
    rows: Annotated[Count, described("The number of events that meet this condition and all before it.")]
    users: Annotated[Count, described("Distinct users of these events.")]


class ExplainedStratum(Answer):
    """The users who were assigned by the same weights."""

    phases: list[Count]
    users: Count
    sum: float
    denominator_sum: float | None
    value: float | None
    weight: Annotated[
        Share,
        described(
            "The weight of these users in the combined value: their share among the users of the first variant and of "
            "all treatments that are compared with it in the same phases. It is 0 where the comparison leaves them "
            "out, because one of its two variants had fewer than 2 users."
        ),
    ]


class ResultExplanation(Answer):
    """How one figure is computed."""

    experiment: Key
    metric: Name
    variant: Key
    as_of: Moment
    frozen_at: Moment | None
    definition: MetricDefinition
    users: Annotated[
        Count, described("Distinct users of the variant who count: with a window, those whose window has passed.")
    ]
    steps: Annotated[
        list[ExplanationStep], described("The events that the metric adds up; for a ratio, those of the numerator.")
    ]
    cap: float | None
    capped_users: Annotated[Count, described("Users whose value is above the cap.")]
    sum: Annotated[float, described("The sum of the users' values, each at most the cap.")]
    denominator_steps: Annotated[list[ExplanationStep] | None, described("The same steps for a ratio's denominator.")]
    denominator_sum: float | None
    strata: Annotated[
        list[ExplainedStratum] | None, described("The same for the phases of each split, if weights have changed.")
    ]
    value: Annotated[
        float | None,
        described(
            "`sum` by user, or for a ratio by `denominatorSum`, or the quantile of the values of events; with "
            "`strata`, the sum of their values times their weights. Where results are adjusted by CUPED, this is "
            "their `raw` value."
        ),
    ]


def explanation_as_json(
    experiment: Experiment, metric: str, variant: str, explained: Document, now: datetime
) -> Document:
    """Return the explanation of a figure that `results.explain` made, with what it explains."""
    [definition] = [definition for definition in definitions_of(experiment) if definition.key == metric]
    return {
        "experiment": experiment.key,
        "metric": metric,
        "variant": variant,
        "asOf": format_timestamp(experiment.frozen_at or now),
        "frozenAt": None if experiment.frozen_at is None else format_timestamp(experiment.frozen_at),
        "definition": definition_as_json(definition),
        **explained,
    }
