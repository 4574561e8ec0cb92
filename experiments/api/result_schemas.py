"""The shapes of results in the OpenAPI document: what every property means, and which may be null."""

from __future__ import annotations

from config.api.schema import KEY, NAME, Schema, closed_object, component
from experiments.aggregates.breakdowns import MOST_VALUES
from experiments.models import Direction, MetricType, Role, Status
from experiments.results.computing import CORRECTIONS
from experiments.stats.types import Decision, ReasonCode
from flags.api.rule_schema import CONDITIONS

_MOMENT: Schema = {"type": "string", "format": "date-time"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_SWITCH: Schema = {"type": "boolean"}
_TEXT: Schema = {"type": "string"}


def _one_of(values: list[str]) -> Schema:
    return {"type": "string", "enum": values}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _or_null(schema: Schema, description: str = "") -> Schema:
    nullable = (
        {"oneOf": [schema, {"type": "null"}]} if "$ref" in schema else {**schema, "type": [schema["type"], "null"]}
    )
    return _described(nullable, description) if description else nullable


def _list(items: Schema, description: str = "") -> Schema:
    listed: Schema = {"type": "array", "items": items}
    return _described(listed, description) if description else listed


_REASON_PROPERTIES: Schema = {
    "code": _one_of([each.value for each in ReasonCode]),
    "message": _described(_TEXT, "A sentence for people."),
}
_REASON = component(
    "Reason", closed_object(_REASON_PROPERTIES, "Why a figure is missing, or a decision is what it is.")
)
_MISSING = component(
    "MissingFigure",
    closed_object(
        {"field": _one_of(["chanceToBeatControl", "expectedLoss", "cuped"]), **_REASON_PROPERTIES},
        "Why a property of the comparison is null.",
    ),
)
_INTERVAL = component(
    "ConfidenceInterval",
    closed_object(
        {"lower": _NUMBER, "upper": _NUMBER},
        "The 95 % interval of one variant's own value: Wilson's for shares, Student's t for means and ratios.",
    ),
)
_TEST = component(
    "TestResult",
    closed_object(
        {"lower": _NUMBER, "upper": _NUMBER, "pValue": _SHARE},
        "95 % interval and p-value of one two-sided test: the interval excludes 0 where the p-value is below 0.05.",
    ),
)
_ESTIMATE = component(
    "Estimate",
    closed_object(
        {
            "estimate": _or_null(_NUMBER),
            "standardError": _or_null(_NUMBER),
            "alwaysValid": _or_null(_TEST, "Holds however often one looks."),
            "fixedHorizon": _or_null(_TEST, "Welch's t: holds for one look at a moment chosen beforehand."),
            "reason": _or_null(_REASON, "Why the others are null."),
        },
        "How a treatment differs from the control.",
    ),
)
_CUPED = component(
    "CupedComparison",
    closed_object(
        {
            "theta": _described(_NUMBER, "What a unit of the metric before the exposure says of it afterwards."),
            "varianceReduction": _described(_SHARE, "The share of the variance that history explains."),
            "value": _described(_NUMBER, "The adjusted mean."),
            "difference": _ESTIMATE,
            "lift": _ESTIMATE,
        },
        "The comparison after what the users did in the 14 days before their exposure is taken out.",
    ),
)
_COMPARISON = component(
    "Comparison",
    closed_object(
        {
            "difference": _described(_ESTIMATE, "The treatment's value less the control's, in units of the metric."),
            "lift": _described(_ESTIMATE, "The difference as a share of the control's value: 0.1 is 10 % more."),
            "chanceToBeatControl": _or_null(_SHARE, "The probability that the treatment is better, by its direction."),
            "expectedLoss": _or_null(_NUMBER, "What choosing the treatment loses on average, in units of the metric."),
            "adjustedPValue": _or_null(
                _SHARE,
                "The always-valid p-value of the difference, adjusted for all goals and treatments. Not of guardrails, "
                "nor of what was added after the start.",
            ),
            "cuped": _or_null(_CUPED),
            "reasons": _list(_MISSING, "Why single properties are null; an estimate has its own reason."),
        },
        "A treatment beside the control.",
    ),
)
_DAY = component(
    "DayFigures",
    closed_object(
        {
            "day": {"type": "string", "format": "date", "description": "Of the exposures, in UTC."},
            "users": _COUNT,
            "value": _or_null(_NUMBER),
            "interval": _or_null(_INTERVAL),
            "difference": _or_null(_ESTIMATE, "Null for the control."),
        },
        "The figures of the users who were exposed until the end of this day.",
    ),
)
_VARIANT = component(
    "VariantFigures",
    closed_object(
        {
            "key": KEY,
            "users": _described(_COUNT, "Distinct users exposed: all count, those without an event as 0."),
            "matureUsers": _described(_COUNT, "Those whose whole window has passed. Left out in a breakdown."),
            "immatureUsers": _described(_COUNT, "Those who are still in it. Left out in a breakdown."),
            "value": _or_null(_NUMBER, "A share from 0 to 1, a mean by user, or for a ratio numerator by denominator."),
            "interval": _or_null(_INTERVAL),
            "reason": _or_null(_REASON, "Why value or interval is null."),
            "events": _described(_COUNT, "Events of the metric's name since the exposures, in any window."),
            "otherCurrencyEvents": _described(
                _COUNT,
                "Events in the window with an amount (`revenue`) in another currency, or in none; they do not count.",
            ),
            "comparison": _or_null(_COMPARISON, "Null for the control."),
            "series": _list(_DAY, "With `series=daily`, each day on which anybody was exposed."),
        },
        "One variant by one metric.",
        optional=["matureUsers", "immatureUsers", "series"],
    ),
)
_DEFINITION: Schema = {
    "key": NAME,
    "version": _described(_COUNT, "0: a name that nobody has defined."),
    "type": _one_of(MetricType.values),
    "event": NAME,
    "property": _TEXT,
    "currency": _TEXT,
    "denominator": _or_null({"$ref": "#/components/schemas/Quantity"}),
    "windowHours": _or_null(_COUNT),
    "delayHours": _COUNT,
    "fromDay": _or_null(_COUNT),
    "toDay": _or_null(_COUNT),
    "capValue": _or_null(_NUMBER),
    "capPercentile": _or_null(_NUMBER),
    "direction": _one_of(Direction.values),
    "role": _one_of(Role.values),
    "isPostHoc": _described(_SWITCH, "Whether it was added after the start: then it decides nothing."),
}
_METRIC = component(
    "MetricFigures",
    closed_object(
        {
            **_DEFINITION,
            "cap": _or_null(_NUMBER, "The value of the cap in force: what is above it counts as it."),
            "isPrimary": _described(_SWITCH, "Whether the verdict rests on it: the first goal, as of the start."),
            "variants": _list(_VARIANT, "In the order of the experiment."),
        },
        "One metric, as it was defined when the experiment took it on, in all variants.",
    ),
)
_SLICE = component(
    "ResultSlice",
    closed_object(
        {
            "value": {
                "type": ["string", "number", "boolean", "null"],
                "description": "Null where nothing was recorded, or with `isRest`.",
            },
            "isRest": _described(_SWITCH, "Whether these are the users of all other values."),
            "users": _COUNT,
            "metrics": _list(
                component("SliceMetric", closed_object({"key": NAME, "variants": _list(_VARIANT)}, "One metric."))
            ),
        },
        "The figures of the users with one value of the attribute.",
    ),
)
_BREAKDOWN = component(
    "ResultBreakdown",
    closed_object(
        {
            "attribute": _TEXT,
            "values": {**_list(_SLICE, "The most users first, the rest last."), "maxItems": MOST_VALUES + 2},
        },
        "The figures by the values of an attribute.",
    ),
)
_SAMPLE_RATIO = component(
    "SampleRatio",
    closed_object(
        {
            "pValue": _or_null(_SHARE, "Always valid: of the multinomial e-process."),
            "chiSquarePValue": _or_null(_SHARE, "Of Pearson's test, for a single look."),
            "isMismatch": _described(_SWITCH, "Whether `pValue` is below 0.001: do not trust the figures."),
            "reason": _or_null(_REASON),
        },
        "Whether the users are split as the weights say.",
    ),
)
_ASSIGNMENTS = component(
    "ResultAssignments",
    closed_object(
        {
            "exposures": _described(_COUNT, "All that are recorded."),
            "differing": _described(_COUNT, "Those that are not what the hash and their phase give."),
            "share": _described(_SHARE, "Of the exposures, those that differ."),
            "selfReported": _described(_COUNT, "Differing: reported by clients, or imported."),
            "forced": _described(_COUNT, "Differing: of users who are or were forced."),
            "otherPhase": _described(_COUNT, "Differing: as another phase gives it."),
            "outsideAudience": _described(_COUNT, "Differing: outside the group's range or the percentage."),
            "conditionsNotMet": _described(_COUNT, "Differing: of users who do not meet the conditions."),
            "unexplained": _described(_COUNT, "Differing: for no cause that can be told."),
            "inSeveralVariants": _described(_COUNT, "Of users who were seen in a second variant."),
            "beforeStart": _described(_COUNT, "From before the second of the start."),
            "afterStop": _described(_COUNT, "From after the stop."),
        },
        "With `audit`: every exposure, held against the hash and the configuration of its phase.",
    ),
)
_GUARDS = component(
    "ResultGuards",
    closed_object(
        {
            "sampleRatio": _SAMPLE_RATIO,
            "usersInSeveralVariants": _described(
                _COUNT, "Users who were seen in a second variant; they count in the first."
            ),
            "eventsOfUnknownVariants": _described(_COUNT, "Events that report a variant which there is not."),
            "eventsBeforeExposure": _described(
                _COUNT, "With `audit`: events of the metrics, by exposed users, from the start until their exposure."
            ),
            "unexpectedVariants": _described(
                _COUNT, "With `audit`: exposures that the service should not have made; there should be none."
            ),
            "assignments": _ASSIGNMENTS,
        },
        "What would make the figures worth less.",
        optional=["eventsBeforeExposure", "unexpectedVariants", "assignments"],
    ),
)
_VERDICT = component(
    "ResultVerdict",
    closed_object(
        {
            "decision": _one_of([each.value for each in Decision]),
            "variant": _or_null(KEY, "The one to ship."),
            "metric": _or_null(NAME, "The primary metric, which decides; null where no metric is a goal."),
            "reasons": _list(_REASON),
        },
        "What to do now.",
    ),
)
_USERS = component(
    "VariantUsers",
    closed_object(
        {
            "key": KEY,
            "weight": {"type": "number", "minimum": 0},
            "users": _COUNT,
            "expectedUsers": _described(_NUMBER, "How many of all users the weights let expect."),
        },
        "A variant and the users who were exposed to it.",
    ),
)

_PHASE = component(
    "ResultPhase",
    closed_object(
        {
            "number": {"type": "integer", "minimum": 1},
            "startedAt": _MOMENT,
            "percentage": _described(_NUMBER, "The share of the audience that was taken in."),
            "conditions": _described(CONDITIONS, "What users had to be like."),
            "reason": _described(_TEXT, "Why it was opened."),
            "isCovered": _described(_SWITCH, "Whether the users who were exposed in it are in the figures."),
            "users": _described(_COUNT, "Distinct users exposed in it, in all variants."),
            "variants": _list(_USERS),
            "sampleRatio": _SAMPLE_RATIO,
        },
        "A time in which users were assigned in one way.",
    ),
)

EXPERIMENT_RESULTS = component(
    "ResultsOfExperiment",
    closed_object(
        {
            "experiment": KEY,
            "status": _one_of(Status.values),
            "startedAt": _or_null(_MOMENT),
            "stoppedAt": _or_null(_MOMENT),
            "asOf": _MOMENT,
            "frozenAt": _or_null(_MOMENT, "Since when the results stand still."),
            "control": KEY,
            "correction": _one_of(list(CORRECTIONS)),
            "users": _described(_COUNT, "Distinct users exposed in the phases that are covered, in all variants."),
            "variants": _list(_USERS),
            "verdict": _VERDICT,
            "guards": _GUARDS,
            "metrics": _list(_METRIC),
            "phases": _list(_PHASE, "All of them, the oldest first; none of a draft."),
            "breakdown": _BREAKDOWN,
        },
        "What came of an experiment.",
        optional=["breakdown"],
    ),
)

_STEP = component(
    "ExplanationStep",
    closed_object(
        {
            "name": _one_of(
                [
                    "events_of_the_name",
                    "by_exposed_users",
                    "of_the_experiment",
                    "after_exposure",
                    "in_the_window",
                    "before_the_stop",
                    "of_the_currency",
                    "with_the_value",
                    "counted",
                ]
            ),
            "description": _TEXT,
            "rows": _described(_COUNT, "Events that meet this condition and all before it."),
            "users": _described(_COUNT, "Whose they are."),
        },
        "What one condition leaves. Those that a metric does not have are left out.",
    ),
)
EXPLAINED = component(
    "ResultExplanation",
    closed_object(
        {
            "experiment": KEY,
            "metric": NAME,
            "variant": KEY,
            "asOf": _MOMENT,
            "frozenAt": _or_null(_MOMENT),
            "definition": component(
                "MetricDefinition", closed_object(_DEFINITION, "A metric as an experiment has it.")
            ),
            "users": _described(_COUNT, "Distinct users exposed to the variant."),
            "steps": _list(_STEP, "Of the events that the metric adds up, or of a ratio's numerator."),
            "cap": _or_null(_NUMBER),
            "cappedUsers": _described(_COUNT, "Users whose value is above the cap."),
            "sum": _described(_NUMBER, "Of the users' values, each at most the cap."),
            "denominatorSteps": _or_null(_list(_STEP), "The same of a ratio's denominator."),
            "denominatorSum": _or_null(_NUMBER),
            "value": _or_null(_NUMBER, "`sum` by user, or for a ratio by `denominatorSum`."),
        },
        "How one figure comes about.",
    ),
)
