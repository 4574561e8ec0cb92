"""How the OpenAPI document describes the operations that tell what came of an experiment."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema

from config.api.schema import NAME, answer, errors, key_in_path, query
from config.errors import ErrorCode
from experiments.aggregates.breakdowns import MOST_VALUES
from experiments.api.result_examples import EXPLANATION, RESULTS
from experiments.api.result_schemas import EXPERIMENT_RESULTS, EXPLAINED
from experiments.exposures.attributes import ATTRIBUTE_LENGTH
from experiments.results.computing import CORRECTIONS

CSV = "text/csv"

_KEY = key_in_path("experiment_key", "experiment")

retrieve = extend_schema(
    operation_id="get_results",
    summary="Get the results of an experiment",
    description="What the statistics say of every metric in every variant, and what to do. Exact: what was "
    "acknowledged before is in it. The `alwaysValid` figures hold however often one looks, the `fixedHorizon` ones for "
    "a single look at a moment that was chosen beforehand. Nothing is ever NaN: a figure that cannot be had is null, "
    "with its `reason`. Results that are frozen (`frozenAt`) stand still whatever events come. With `Accept: text/csv` "
    "the answer is a table, a row for each metric and variant.",
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
            "Adds to each variant how its figures stood with the users exposed until the end of each day, in UTC.",
        ),
        query(
            "breakdown",
            {**NAME, "maxLength": ATTRIBUTE_LENGTH},
            "Adds the figures by the values of this attribute, which users had at their exposure: the "
            f"{MOST_VALUES} that most users have, all others as one, and on top "
            "those without a value. P-values are adjusted over all of them together.",
        ),
        query(
            "phase",
            NAME,
            "Covers the users who were exposed in the phase of this number, or with `all` those of every phase. "
            "Default: the newest one and those directly before it that split users alike, for with other weights the "
            "users of one variant come from other times than those of another.",
        ),
        query(
            "audit",
            {"type": "boolean"},
            "`true` adds what an audit of all exposures finds to the guards: seconds, with a million users.",
        ),
    ],
    responses={
        200: answer(EXPERIMENT_RESULTS, "The results.", RESULTS),
        (200, CSV): OpenApiTypes.STR,
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
    },
)

explain = extend_schema(
    operation_id="explain_results",
    summary="Explain a figure of the results",
    description="How the value of one metric in one variant comes about: how many events, of how many users, each "
    "condition of the metric's definition leaves. Counted from the events when it is asked for, by statements that "
    "have nothing in common with those behind the results, so that one can be held against the other: that takes "
    "seconds where there are millions. Kept when the results freeze.",
    parameters=[
        _KEY,
        query("metric", NAME, "A metric of the experiment.", required=True),
        query("variant", NAME, "A variant of the experiment.", required=True),
        query("phase", NAME, "As for the results."),
    ],
    responses={200: answer(EXPLAINED, "The explanation.", EXPLANATION), **errors(ErrorCode.EXPERIMENT_NOT_FOUND)},
)
