"""How the OpenAPI document describes the operations that return the results of an experiment."""

from __future__ import annotations

from datetime import UTC, datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema

from config.api.schema import NAME, answer, errors, key_in_path, query
from config.api.structs import schema_of
from config.errors import ErrorCode
from config.timestamps import format_timestamp
from experiments.aggregates.breakdowns import MOST_VALUES
from experiments.api.experiment_openapi import EVEN
from experiments.api.result_answers import ResultExplanation, ResultsOfExperiment, explanation_document
from experiments.exposures.attributes import ATTRIBUTE_LENGTH
from experiments.metrics.definition import undefined
from experiments.models import Experiment, Status
from experiments.results.computing import CORRECTIONS
from experiments.results.types import Guards, MetricFigures, PhaseFigures, Results, VariantFigures, VariantUsers
from experiments.stats.types import (
    Comparison,
    Decision,
    Estimate,
    Interval,
    Reason,
    ReasonCode,
    SampleRatio,
    Test,
    VariantEstimate,
    Verdict,
)

CSV = "text/csv"

_KEY = key_in_path("experiment_key", "experiment")

# The example: 120 of 1,000 users convert with the control and 150 of 1,000 with green, before the planned end.
_STARTED_AT, _AT = datetime(2026, 1, 31, 13, tzinfo=UTC), datetime(2026, 2, 7, 9, tzinfo=UTC)
_EXPERIMENT = Experiment(
    key="checkout-button", status=Status.RUNNING, variants=EVEN, metrics=["purchase"], started_at=_STARTED_AT
)
_COMPARISON = Comparison(
    difference=Estimate(0.03, 0.01528, Test(-0.01772, 0.07772, 0.4714), Test(4.275e-05, 0.05996, 0.04967)),
    lift=Estimate(0.25, 0.1426, Test(-0.1954, 0.6954, 0.6349), Test(-0.02965, 0.5296, 0.07972)),
    chance_to_beat=0.9751,
    expected_loss=0.0001442,
    cuped=Reason(
        ReasonCode.NO_HISTORY, "All users had the same value before their exposure, so there is nothing to adjust by."
    ),
    adjusted_p=0.4714,
)
_FIGURES = [
    VariantFigures(VariantEstimate(key, 1000, value, interval, None, comparison), 1000, 1000, events, 0)
    for key, value, interval, events, comparison in (
        ("control", 0.12, Interval(0.1013, 0.1416), 131, None),
        ("green", 0.15, Interval(0.1292, 0.1735), 166, _COMPARISON),
    )
]
_USERS = [VariantUsers(key, 50, 1000, 1000) for key in ("control", "green")]
_RATIO = SampleRatio({variant.key: 1000 for variant in _USERS}, 1, 1, False)
_PHASE = {
    "startedAt": format_timestamp(_STARTED_AT),
    "percentage": 100,
    "conditions": [],
    "reason": "Bigger buttons sell more, we think",
}
_RESULTS = Results(
    experiment=_EXPERIMENT,
    as_of=_AT,
    control="control",
    correction="holm",
    variants=_USERS,
    metrics=[MetricFigures(undefined("purchase"), 0, True, None, _FIGURES)],
    guards=Guards(_RATIO, 0, 0),
    verdict=Verdict(
        Decision.KEEP_RUNNING,
        None,
        [
            Reason(
                ReasonCode.NOT_SIGNIFICANT,
                "purchase of green is 3 percentage points above control (95 % always-valid interval -1.77 to 7.77), "
                "p = 0.47: this may be chance.",
            )
        ],
    ),
    harmed={},
    primary="purchase",
    phases=[PhaseFigures(1, _PHASE, _USERS, _RATIO, True)],
)
_STEPS = (
    ("events_of_the_name", "Events named purchase in the environment.", 512, 455),
    ("by_exposed_users", "By users who were exposed to the variant.", 190, 162),
    ("of_the_experiment", "That name this experiment, or none.", 186, 159),
    ("after_exposure", "At or after the second of the exposure.", 166, 150),
    ("counted", "What is left counts.", 166, 150),
)
_EXPLAINED = {
    "users": 1000,
    "steps": [dict(zip(("name", "description", "rows", "users"), step, strict=True)) for step in _STEPS],
    "cap": None,
    "cappedUsers": 0,
    "sum": 150,
    "denominatorSteps": None,
    "denominatorSum": None,
    "value": 0.15,
}

retrieve = extend_schema(
    operation_id="get_results",
    summary="Get the results of an experiment",
    description="The statistics of every metric in every variant, and the verdict. The results are exact: they include "
    "everything that was acknowledged before the request. The `alwaysValid` figures hold however often one looks, the "
    "`fixedHorizon` figures for a single look at a moment chosen beforehand. No figure is NaN: a missing one is null, "
    "with its `reason`. Frozen results (`frozenAt`) no longer change, whatever events come. With `Accept: text/csv` "
    "the answer is a table with a row for each metric and variant.",
    parameters=[
        _KEY,
        query("metric", NAME, "Only this metric; the verdict and adjusted p-values still rest on all."),
        query("control", NAME, "Compare with this variant. Default: the first one."),
        query(
            "correction",
            {"type": "string", "enum": list(CORRECTIONS), "default": CORRECTIONS[0]},
            "How p-values are adjusted for the number of goals and treatments: `holm` bounds the chance of one false "
            "discovery, `benjamini-hochberg` the share of false ones among all.",
        ),
        query(
            "series",
            {"type": "string", "enum": ["daily"]},
            "Adds to each variant its figures for the users exposed by the end of each day, in UTC.",
        ),
        query(
            "breakdown",
            {**NAME, "maxLength": ATTRIBUTE_LENGTH},
            "Adds the figures by the values that this attribute had at the exposure: the "
            f"{MOST_VALUES} values with the most users, all others as one, and the users without a value. "
            "P-values are adjusted over all of them together.",
        ),
        query(
            "phase",
            NAME,
            "Covers the users who were exposed in the phase of this number, or with `all` those of every phase. "
            "Default: the newest phase and those directly before it with the same split. With other weights, the "
            "users of one variant would come from other times than those of another.",
        ),
        query(
            "audit",
            {"type": "boolean"},
            "`true` adds an audit of all exposures to the guards. It takes seconds for a million users.",
        ),
    ],
    responses={
        200: answer(schema_of(ResultsOfExperiment), "The results.", ResultsOfExperiment.of(_RESULTS).document()),
        (200, CSV): OpenApiTypes.STR,
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
    },
)

explain = extend_schema(
    operation_id="explain_results",
    summary="Explain a figure of the results",
    description="How the value of one metric in one variant is computed: how many events, of how many users, each "
    "condition of the metric's definition leaves. It is counted from the events on request, by statements that share "
    "nothing with those behind the results, so that each can check the other. With millions of events this takes "
    "seconds. The explanation is stored when the results freeze.",
    parameters=[
        _KEY,
        query("metric", NAME, "A metric of the experiment.", required=True),
        query("variant", NAME, "A variant of the experiment.", required=True),
        query("phase", NAME, "As for the results."),
    ],
    responses={
        200: answer(
            schema_of(ResultExplanation),
            "The explanation.",
            explanation_document(_EXPERIMENT, "purchase", "green", _EXPLAINED, _AT),
        ),
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
    },
)
