"""Results as the OpenAPI document shows them: 120 of 1,000 users against 150 of 1,000, looked at on the way."""

from __future__ import annotations

from config.documents import Document
from experiments.metrics.definition import undefined

_NOW = "2026-02-07T09:00:00.000000Z"
_CONTROL: Document = {
    "key": "control",
    "users": 1000,
    "matureUsers": 1000,
    "immatureUsers": 0,
    "value": 0.12,
    "interval": {"lower": 0.1013, "upper": 0.1416},
    "reason": None,
    "events": 131,
    "otherCurrencyEvents": 0,
    "comparison": None,
}
_GREEN: Document = {
    "key": "green",
    "users": 1000,
    "matureUsers": 1000,
    "immatureUsers": 0,
    "value": 0.15,
    "interval": {"lower": 0.1292, "upper": 0.1735},
    "reason": None,
    "events": 166,
    "otherCurrencyEvents": 0,
    "comparison": {
        "difference": {
            "estimate": 0.03,
            "standardError": 0.01528,
            "alwaysValid": {"lower": -0.01772, "upper": 0.07772, "pValue": 0.4714},
            "fixedHorizon": {"lower": 4.275e-05, "upper": 0.05996, "pValue": 0.04967},
            "reason": None,
        },
        "lift": {
            "estimate": 0.25,
            "standardError": 0.1426,
            "alwaysValid": {"lower": -0.1954, "upper": 0.6954, "pValue": 0.6349},
            "fixedHorizon": {"lower": -0.02965, "upper": 0.5296, "pValue": 0.07972},
            "reason": None,
        },
        "chanceToBeatControl": 0.9751,
        "expectedLoss": 0.0001442,
        "adjustedPValue": 0.4714,
        "cuped": None,
        "reasons": [
            {
                "field": "cuped",
                "code": "no_history",
                "message": "All users had the same value before their exposure, so there is nothing to adjust by.",
            }
        ],
    },
}
_DEFINITION: Document = {**undefined("purchase").document(), "isPostHoc": False}
_USERS: list[Document] = [
    {"key": "control", "weight": 50, "users": 1000, "expectedUsers": 1000},
    {"key": "green", "weight": 50, "users": 1000, "expectedUsers": 1000},
]
_RATIO: Document = {"pValue": 1, "chiSquarePValue": 1, "isMismatch": False, "reason": None}
RESULTS: Document = {
    "experiment": "checkout-button",
    "status": "running",
    "startedAt": "2026-01-31T13:00:00.000000Z",
    "stoppedAt": None,
    "asOf": _NOW,
    "frozenAt": None,
    "control": "control",
    "correction": "holm",
    "users": 2000,
    "variants": _USERS,
    "verdict": {
        "decision": "keep_running",
        "variant": None,
        "metric": "purchase",
        "reasons": [
            {
                "code": "not_significant",
                "message": "purchase of green is 3 percentage points above control (95 % always-valid interval -1.77 "
                "to 7.77), p = 0.47: this may be chance.",
            }
        ],
    },
    "guards": {
        "sampleRatio": _RATIO,
        "usersInSeveralVariants": 0,
        "eventsOfUnknownVariants": 0,
    },
    "metrics": [
        {**_DEFINITION, "cap": None, "isPrimary": True, "variants": [_CONTROL, _GREEN]},
    ],
    "phases": [
        {
            "number": 1,
            "startedAt": "2026-01-31T13:00:00.000000Z",
            "percentage": 100,
            "conditions": [],
            "reason": "Bigger buttons sell more, we think",
            "isCovered": True,
            "users": 2000,
            "variants": _USERS,
            "sampleRatio": _RATIO,
        },
    ],
}


def _step(name: str, description: str, rows: int, users: int) -> Document:
    return {"name": name, "description": description, "rows": rows, "users": users}


EXPLANATION: Document = {
    "experiment": "checkout-button",
    "metric": "purchase",
    "variant": "green",
    "asOf": _NOW,
    "frozenAt": None,
    "definition": _DEFINITION,
    "users": 1000,
    "steps": [
        _step("events_of_the_name", "Events named purchase in the environment.", 512, 455),
        _step("by_exposed_users", "By users who were exposed to the variant.", 190, 162),
        _step("of_the_experiment", "That name this experiment, or none.", 186, 159),
        _step("after_exposure", "At or after the second of the exposure.", 166, 150),
        _step("counted", "What is left counts.", 166, 150),
    ],
    "cap": None,
    "cappedUsers": 0,
    "sum": 150,
    "denominatorSteps": None,
    "denominatorSum": None,
    "value": 0.15,
}
