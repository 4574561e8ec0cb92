"""How the OpenAPI document describes the operation that plans experiments."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import KEY, TEXT, Schema, answer, closed_object, component, errors, query
from experiments.design.checks import LEAST_TUNING_SIZE, MOST_TUNING_SIZE, MOST_VARIANTS
from experiments.planner.plan import ALPHA, POWER, VARIANTS
from experiments.planner.question import (
    FEWEST_USERS_PER_DAY,
    LARGEST_ALPHA,
    LARGEST_MDE,
    LARGEST_POWER,
    MOST_USERS_PER_DAY,
    SMALLEST_ALPHA,
    SMALLEST_POWER,
    Kind,
)
from experiments.stats.types import TUNING_SIZE

_KIND: Schema = {"type": "string", "enum": [each.value for each in Kind]}
_NUMBER: Schema = {"type": "number"}
_POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
_POWER: Schema = {"type": "number", "minimum": SMALLEST_POWER, "maximum": LARGEST_POWER}
_ALPHA: Schema = {"type": "number", "minimum": SMALLEST_ALPHA, "maximum": LARGEST_ALPHA}
_MDE: Schema = {"type": "number", "exclusiveMinimum": -1, "maximum": LARGEST_MDE}
_VARIANTS: Schema = {"type": "integer", "minimum": 2, "maximum": MOST_VARIANTS}
_TUNING_SIZE: Schema = {"type": "integer", "minimum": LEAST_TUNING_SIZE, "maximum": MOST_TUNING_SIZE}
_SHARE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}
_USERS_PER_DAY: Schema = {"type": "number", "minimum": FEWEST_USERS_PER_DAY, "maximum": MOST_USERS_PER_DAY}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MOMENT: Schema = {"type": "string", "format": "date-time"}


def _or_null(schema: Schema, description: str) -> Schema:
    return {**schema, "type": [schema["type"], "null"], "description": description}


_SIZE = component(
    "PlannedSize",
    closed_object(
        {
            "usersPerVariant": {"type": "integer", "minimum": 2, "description": "That each variant needs at least."},
            "users": {
                "type": "integer",
                "minimum": 4,
                "description": "Of all variants together, until the smallest has as many.",
            },
            "days": _or_null({"type": "integer", "minimum": 1}, "null where nobody knows how many users come a day."),
        },
        "How many users, and so how many days, it takes to find the effect with the power asked for.",
    ),
)
_ASSUMPTIONS = component(
    "PlannerAssumptions",
    closed_object(
        {
            "type": _KIND,
            "baseline": {
                **_NUMBER,
                "description": "What one user of the control gives; of a rate, a share from 0 to 1.",
            },
            "standardDeviation": _or_null(_POSITIVE, "Of one user; null for rates."),
            "mde": {**_MDE, "description": "The minimum detectable effect, as a share of the baseline."},
            "power": _POWER,
            "alpha": {**_ALPHA, "description": "Shared equally between the treatments (Bonferroni)."},
            "variants": {**_VARIANTS, "description": "With the control, without those of weight 0."},
            "smallestShare": {**_SHARE, "description": "Of all users, those whom the smallest variant gets."},
            "usersPerDay": _or_null(_POSITIVE, "Of all variants together."),
            "tuningSampleSize": {
                **_TUNING_SIZE,
                "description": "The number of users at which always-valid intervals are narrowest.",
            },
        },
        "What the plan reckons with: what was sent, else what is known of the metric, else what is usual.",
    ),
)
_HISTORY = closed_object(
    {
        "experiment": _or_null(KEY, "The experiment that measured it; null: it is counted from events alone."),
        "from": _MOMENT,
        "to": _MOMENT,
        "users": {**_COUNT, "description": "Who came between these moments, in whatever variant."},
        "usersPerDay": _POSITIVE,
        "baseline": _or_null(
            _NUMBER, "Of one user, in an experiment of one of the control; null where none can be used."
        ),
        "standardDeviation": _or_null({"type": "number", "minimum": 0}, "null for rates."),
    },
    "What is known of the metric.",
)
_DAY = component(
    "DetectableDay",
    closed_object(
        {
            "day": {"type": "string", "format": "date", "description": "In UTC."},
            "users": {**_COUNT, "description": "Exposed until the end of this day, in all variants together."},
            "isForecast": {"type": "boolean", "description": "Whether the day is to come."},
            "fixedHorizon": _or_null(_POSITIVE, "By a single look at the end of this day."),
            "alwaysValid": _or_null(_POSITIVE, "Whenever one looks."),
        },
        "The smallest rise, as a share of the baseline, that is found with the power asked for; null where no rise is.",
    ),
)
_PLAN = component(
    "Plan",
    closed_object(
        {
            "fixedHorizon": _SIZE,
            "alwaysValid": _SIZE,
            "assumptions": _ASSUMPTIONS,
            "history": {"oneOf": [component("MetricHistory", _HISTORY), {"type": "null"}]},
            "detectable": {
                "type": ["array", "null"],
                "items": _DAY,
                "description": "Of a started experiment, day by day since its first exposure; of a running one, four "
                "weeks ahead, too.",
            },
        },
        "What it takes to find an effect.",
    ),
)
_EXAMPLE = {
    "fixedHorizon": {"usersPerVariant": 57761, "users": 115522, "days": 24},
    "alwaysValid": {"usersPerVariant": 137336, "users": 274672, "days": 55},
    "assumptions": {
        "type": "rate",
        "baseline": 0.1,
        "standardDeviation": None,
        "mde": 0.05,
        "power": 0.8,
        "alpha": 0.05,
        "variants": 2,
        "smallestShare": 0.5,
        "usersPerDay": 5000,
        "tuningSampleSize": 5000,
    },
    "history": None,
    "detectable": None,
}

retrieve = extend_schema(
    operation_id="plan_experiment",
    summary="Plan an experiment",
    description="How many users and days it takes to find an effect: by the fixed-horizon test, which is done once, "
    "at the end; and by the always-valid one, which may be looked at any time, and which has found the effect with the "
    "power asked for by that number of users, and mostly earlier. With `metric` or `experiment`, what is not sent "
    "is taken from history: from the control of the newest experiment that has measured the metric of 100 users there "
    "at least, or else from the users who came in the last 28 days, of whom 10,000 are looked at. Unequal weights "
    "count: the smallest variant needs its users, too. With `experiment`, `detectable` says what it could find by now.",
    parameters=[
        query(
            "mde",
            {**_MDE, "examples": [0.05]},
            "The minimum detectable effect, as a share of the baseline: 0.05 for a rise by 5 %. Below 0 for a fall; at "
            "least 0.0001 either way.",
            required=True,
        ),
        query("type", _KIND, "Whether the baseline is a rate or a mean. Default: what the metric is, else rate."),
        query("baseline", _NUMBER, "What one user of the control gives. Required where it is not known of the metric."),
        query("standardDeviation", _POSITIVE, "Of one user. For means, required where it is not known of the metric."),
        query("power", {**_POWER, "default": POWER}, "The chance to find the effect, if there is one."),
        query("alpha", {**_ALPHA, "default": ALPHA}, "The chance to find one where there is none."),
        query(
            "variants",
            _VARIANTS,
            "With the control; all of the same size. Default: those of the experiment, or of that in the history, with "
            f"their weights; else {VARIANTS}.",
        ),
        query(
            "usersPerDay",
            _USERS_PER_DAY,
            "Of all variants together. Default: as come to the experiment, else as in the history.",
        ),
        query(
            "tuningSampleSize",
            _TUNING_SIZE,
            "The number of users at which always-valid intervals are narrowest. Default: that of the experiment, else "
            f"{TUNING_SIZE}.",
        ),
        query("metric", TEXT, "The key of a metric, or the name of an event. Default: the experiment's first."),
        query("experiment", TEXT, "The key of an experiment."),
    ],
    responses={200: answer(_PLAN, "The plan.", _EXAMPLE), **errors()},
)
