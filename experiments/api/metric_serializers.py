"""Metrics as JSON. The serializers check JSON types; `experiments.metrics.checks` checks the values together."""

from __future__ import annotations

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema_field
from msgspec import UNSET, Meta, UnsetType
from rest_framework import serializers

from config.api.schema import NAME
from config.api.serializers import (
    ChoiceField,
    KeyField,
    NumberField,
    RawField,
    StrictSerializer,
    TextField,
    TimestampField,
    WholeNumberField,
)
from config.api.structs import Answer, Count, Key, Name, described, one_of, schema_of, shaped
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE, NAME_LENGTH
from experiments.metrics.changes import uses_of
from experiments.metrics.checks import (
    CURRENCY_PATTERN,
    FUNNEL,
    MAX_DAYS,
    MAX_HOURS,
    MAX_PERCENTILE,
    MAX_STEPS,
    MIN_PERCENTILE,
    MIN_STEPS,
)
from experiments.metrics.conditions import MAX_CONDITIONS, MAX_TEXT_LENGTH, MAX_VALUES, OPERATORS
from experiments.metrics.definition import LEFT_OUT_WHILE_EMPTY, without_empty
from experiments.models import Direction, Metric, MetricType, Role, Status

_CURRENCY = {"pattern": f"{CURRENCY_PATTERN[:-1]}$|^$"}
_SCALAR = {"type": ["string", "number", "boolean"], "maxLength": MAX_TEXT_LENGTH}
_COMPARED = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_VALUES}]}


class EventCondition(Answer):
    """A condition on a property of an event.

    A property that is missing or null meets `notExists` alone. A property of another type than the value meets no
    comparison, not even a negative one. For `equals`, `notEquals`, `in` and `notIn`, a boolean and its texts in upper
    or lower case, such as "True", are one value.
    """

    property: Annotated[Name, described("The name of the property.")]
    operator: Annotated[str, one_of(OPERATORS), described("How to compare. It means what it means in a flag.")]
    value: Annotated[
        Any,
        shaped(_COMPARED),
        described(
            "What to compare with: a list for `in` and `notIn`, a number for comparisons of numbers, a text for "
            "`contains` and `startsWith`. `exists` and `notExists` take no value."
        ),
    ] = UNSET


_Where = Annotated[list[EventCondition], Meta(max_length=MAX_CONDITIONS)]


class FunnelStep(Answer):
    """A step of a funnel: an event of this name that meets all conditions."""

    event: Name
    where: _Where | UnsetType = UNSET


_Steps = Annotated[list[FunnelStep], Meta(min_length=MIN_STEPS, max_length=MAX_STEPS)]


class Quantity(Answer):
    """The number of a user's events of this name or, with a property, the sum of that."""

    event: Name
    property: Annotated[str | UnsetType, shaped({**NAME, "minLength": 0})] = UNSET
    currency: Annotated[str | UnsetType, shaped(_CURRENCY)] = UNSET
    where: _Where | UnsetType = UNSET


class MetricUse(Answer):
    """An experiment that names the metric."""

    experiment: Key
    status: Annotated[str, one_of(Status.values)]
    version: Annotated[Count, described("The version that it measures; 0 for the name before it was defined.")]


class MetricDefinition(Answer, kw_only=True):
    """A metric as an experiment measures it."""

    key: Name
    version: Annotated[Count, described("The version of its definition; 0 for a name that is not defined.")]
    type: Annotated[str, one_of(MetricType.values)]
    event: Name
    property: str
    currency: str
    denominator: Quantity | None
    window_hours: Count | None
    delay_hours: Count
    from_day: Count | None
    to_day: Count | None
    cap_value: float | None
    cap_percentile: float | None
    direction: Annotated[str, one_of(Direction.values)]
    role: Annotated[str, one_of(Role.values)]
    where: Annotated[_Where | UnsetType, described("Only events that meet all of these count.")] = UNSET
    steps: Annotated[_Steps | UnsetType, described("The steps of a funnel.")] = UNSET
    quantile: Annotated[float | UnsetType, described("The share of events below the value of a quantile.")] = UNSET
    margin: Annotated[float | UnsetType, described("How much worse a guardrail may get, relative to control.")] = UNSET
    margin_absolute: Annotated[float | UnsetType, described("The same in the unit of the metric.")] = UNSET
    is_post_hoc: Annotated[bool, described("Whether it was added after the start. If so, it decides nothing.")]


_DENOMINATOR = {"allOf": [schema_of(Quantity)], "description": "What a ratio divides by."}
_WHERE = {
    **schema_of(_Where),
    "description": "Only events that meet all of these conditions count. A funnel has them in its steps.",
}
_STEPS = {
    **schema_of(_Steps),
    "description": "For funnels, which require it: the steps that a user's events must pass in this order.",
}
_USES = {
    **schema_of(list[MetricUse]),
    "description": "The experiments of this environment that name it, the newest first, with the version that each "
    "measures. For a draft, that is the current version, which it takes over when it starts.",
}


class HoursField(WholeNumberField):
    def __init__(self, least: int, **options: Any) -> None:
        super().__init__(min_value=least, max_value=MAX_HOURS, required=False, **options)


class DayField(WholeNumberField):
    def __init__(self, least: int, most: int, **options: Any) -> None:
        super().__init__(min_value=least, max_value=most, required=False, allow_null=True, **options)


@extend_schema_field({"type": "string", "pattern": CURRENCY_PATTERN})
class CurrencyField(TextField):
    """A currency, or nothing; the domain checks it."""


@extend_schema_field({"type": "number", "exclusiveMinimum": 0})
class AmountField(NumberField):
    """An amount; the domain checks it."""


@extend_schema_field({"type": "number", "exclusiveMinimum": MIN_PERCENTILE, "exclusiveMaximum": MAX_PERCENTILE})
class CapPercentileField(NumberField):
    """A percentile; the domain checks it."""


@extend_schema_field({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})
class QuantileField(NumberField):
    """A share of events; the domain checks it."""


@extend_schema_field({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
class MarginField(NumberField):
    """A share of the control's value; the domain checks it."""


class MetricEntrySerializer(StrictSerializer):
    """What a metric computes from the events of each exposed user."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    type = ChoiceField(choices=MetricType.values)
    event = TextField(
        required=False,
        min_length=1,
        max_length=NAME_LENGTH,
        help_text="The name of the events that it counts. Every type but `funnel` requires it: a funnel has the event "
        "of its first step.",
    )
    property = TextField(
        required=False,
        allow_blank=True,
        max_length=NAME_LENGTH,
        help_text="The property whose numbers are added. Sum, mean and quantile need one; a ratio without one counts "
        "events. For `distinct`: the property whose different values count; without one, different days (UTC) count.",
    )
    currency = CurrencyField(
        required=False,
        allow_blank=True,
        help_text="Three letters, stored in upper case. Required for revenue, and if `property` is `revenue`. The "
        "currencies of events may be in any case.",
    )
    denominator = RawField(_DENOMINATOR, required=False, allow_null=True)
    where = RawField(_WHERE, required=False, allow_null=True)
    steps = RawField(_STEPS, required=False, allow_null=True)
    quantile = QuantileField(
        required=False,
        allow_null=True,
        help_text="For quantiles, which require it: the share of events below the value, above 0 and below 1. "
        "0.5 is the median.",
    )
    windowHours = HoursField(
        1,
        source="window_hours",
        allow_null=True,
        help_text="How long events count, starting `delayHours` after the exposure; null: until the stop.",
    )
    delayHours = HoursField(0, source="delay_hours", help_text="How long after the exposure events begin to count.")
    fromDay = DayField(
        0,
        MAX_DAYS - 1,
        source="from_day",
        help_text="For retention: the first day that counts. Day 0 begins with the exposure.",
    )
    toDay = DayField(1, MAX_DAYS, source="to_day", help_text="For retention: the first day that no longer counts.")
    capValue = AmountField(
        source="cap_value",
        required=False,
        allow_null=True,
        help_text="For count, revenue and sum: a positive value above the cap counts as the cap.",
    )
    capPercentile = CapPercentileField(
        source="cap_percentile",
        required=False,
        allow_null=True,
        help_text="Like `capValue`, with the cap at this percentile of the users whose value is "
        f"not 0. It is above {MIN_PERCENTILE} and below {MAX_PERCENTILE}.",
    )
    direction = ChoiceField(choices=Direction.values, required=False, help_text="Which direction is good.")
    role = ChoiceField(
        choices=Role.values,
        required=False,
        help_text="A goal should improve; a guardrail must not get worse.",
    )
    margin = MarginField(
        required=False,
        allow_null=True,
        help_text="For guardrails: how much worse the metric may get, relative to the control. 0.1, the default, is "
        "10 %. A treatment is shipped only if the guardrail is shown to be within its margin.",
    )
    marginAbsolute = AmountField(
        source="margin_absolute",
        required=False,
        allow_null=True,
        help_text="Instead of `margin`: how much worse it may get in the unit of the metric. For a share of users, "
        "one percentage point is 0.01.",
    )
    version = serializers.IntegerField(
        read_only=True,
        help_text="The version of its definition, from 1. A change makes a new version only if a "
        "started experiment measures this one.",
    )
    createdAt = TimestampField(source="created_at", read_only=True)
    updatedAt = TimestampField(source="updated_at", read_only=True)

    left_out_while_empty = LEFT_OUT_WHILE_EMPTY

    def to_internal_value(self, data: Any) -> Any:
        self.fields["event"].required = data.get("type") != FUNNEL and not data.get("steps")
        return super().to_internal_value(data)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return without_empty(super().to_representation(instance))


class MetricSerializer(MetricEntrySerializer):
    """A metric, with the experiments that use it in the environment of the request."""

    usedBy = serializers.SerializerMethodField()

    @extend_schema_field(_USES)
    def get_usedBy(self, metric: Metric) -> list[dict[str, Any]]:
        uses = uses_of(metric.key, self.context["environment"])
        return [
            MetricUse(
                experiment=use.experiment.key,
                status=use.experiment.status,
                version=metric.version if use.version is None else use.version,
            ).as_json()
            for use in uses
        ]


class MetricUpdateSerializer(MetricSerializer):
    """The properties of a metric that can be changed. You may send the others back as you read
    them.
    """

    computed = frozenset({"usedBy"})
    key = KeyField(read_only=True)
