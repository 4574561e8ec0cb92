"""How the OpenAPI document describes the operations that return the results of an experiment."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema

from config.api.schema import NAME, answer, errors, key_in_path, query
from config.api.structs import schema_of
from config.errors import ErrorCode
from experiments.aggregates.breakdowns import MOST_VALUES
from experiments.api.result_answers import ResultExplanation, ResultsOfExperiment
from experiments.exposures.attributes import ATTRIBUTE_LENGTH
from experiments.results.computing import CORRECTIONS

CSV = "text/csv"

_KEY = key_in_path("experiment_key", "experiment")


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
        200: answer(schema_of(ResultsOfExperiment), "The results."),
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
        ),
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
    },
)
