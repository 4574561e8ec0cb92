"""How the OpenAPI document describes what an experiment is made of. `design` and `audience` say what may be."""

from __future__ import annotations

from config.api.schema import KEY, NAME, Schema, closed_object, component
from experiments.design.audience import MOST_USERS
from flags.api.rule_schema import CONDITIONS as CONDITIONS_OF_RULES
from flags.engine.experiment_rule import MOST_FORCED

_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.001}
_WEIGHT: Schema = {
    "type": "number",
    "minimum": 0,
    "description": "Relative to the sum of all, which need not be 1 or 100.",
}
_MOMENT: Schema = {"type": "string", "format": "date-time"}

VARIANT = component("Variant", closed_object({"key": KEY, "weight": _WEIGHT}, "A variant and its share of the users."))
PERCENTAGE: Schema = {
    **_SHARE,
    "description": "The share of the users in the audience that is taken in; 100 unless it is said, and left out then.",
}
CONDITIONS: Schema = {**CONDITIONS_OF_RULES, "description": "What users must be like to be taken in."}
GROUP: Schema = component(
    "ExperimentGroup",
    closed_object(
        {"key": KEY, "from": _SHARE, "to": {**_SHARE, "description": "Above `from`."}},
        "A part, in percent of the users, of a group of experiments that no user is in two of. It is this experiment's "
        "until it stops.",
    ),
)
FORCED: Schema = {
    "type": "object",
    "additionalProperties": KEY,
    "maxProperties": MOST_FORCED,
    "description": "The variants that testers see, by user id; they never count.",
}
_SERVED: Schema = {"anyOf": [KEY, {"type": "boolean"}]}
DRIVEN_FLAG: Schema = component(
    "DrivenFlag",
    closed_object(
        {
            "key": KEY,
            "serves": {
                "type": "object",
                "additionalProperties": _SERVED,
                "description": "For each variant of the experiment a variant of the flag, or of a flag without "
                "variants true or false.",
            },
        },
        "The flag that the experiment drives while it runs.",
    ),
)
PLANNED: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_USERS,
    "description": "How many users, in all variants together, it is meant to have before anybody decides.",
}
REGISTRATION: Schema = component(
    "Registration",
    closed_object(
        {
            "primaryMetric": {"type": ["string", "null"], "description": "The first goal among the metrics."},
            "direction": {"type": ["string", "null"], "enum": ["increase", "decrease", None]},
            "windowHours": {"type": ["integer", "null"]},
            "metrics": {"type": "array", "items": NAME},
            "plannedSampleSize": {"type": ["integer", "null"]},
        },
        "What the start fixed, before any results. Left out if it follows from `metrics`: the first one decides, an "
        "increase is good, and there is no window and no planned sample size.",
    ),
)
PHASES: Schema = {
    "type": "array",
    "items": component(
        "Phase",
        closed_object(
            {
                "number": {"type": "integer", "minimum": 1},
                "startedAt": _MOMENT,
                "variants": {"type": "array", "items": VARIANT},
                "percentage": _SHARE,
                "conditions": CONDITIONS_OF_RULES,
                "reason": {"type": "string"},
            },
            "How users were assigned from a moment on, until the next phase.",
        ),
    ),
    "description": "Left out while there has been but one, of all users.",
}
