"""Experiments, their steps and assignments as JSON. `experiments.models.design_checks` checks the values."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from msgspec import UNSET, UnsetType
from rest_framework import serializers

from config.api.schema import NAME
from config.api.serializers import (
    ArrayField,
    KeyField,
    NumberField,
    ObjectField,
    RawField,
    StrictSerializer,
    SwitchField,
    TextField,
    TimestampField,
)
from config.api.structs import Answer, Key, described, one_of
from config.documents import Document
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE, NAME_LENGTH, REASON_LENGTH
from experiments.api.design_schema import (
    ANALYSIS,
    CONDITIONS,
    DAYS_OF_LOOKBACK,
    DRIVEN_FLAG,
    FORCED,
    GROUP,
    MINIMUM_DAYS_OF_RUN,
    MINIMUM_EFFECT,
    PERCENTAGE,
    PHASES,
    PLANNED,
    REGISTRATION,
    SHIP_TO,
    TUNING_SIZE_OF_INTERVALS,
    VARIANT,
)
from experiments.exposures.assignment import REASONS, WINNER
from experiments.exposures.attributes import ATTRIBUTE_LENGTH, MAX_ATTRIBUTES, TEXT_LENGTH
from experiments.lifecycle.decisions import MAX_HOLDBACK
from experiments.models import LOOKBACK_DAYS, MINIMUM_DAYS, WHOLE, AnalysisMethod, Experiment, Status
from experiments.models.design_checks import MAX_METRICS, MAX_VARIANTS
from experiments.models.phases import integer_if_whole
from experiments.models.plan import new_plan, registered_plan
from experiments.results.analyse import compute_results
from experiments.stats.types import TUNING_SIZE
from flags.changes.experiment_rules import ShipTo


class VariantResultSerializer(serializers.Serializer[Any]):
    """`sampleSize`: distinct users exposed; `conversion`: the share of them with an event of the first metric."""

    conversion = serializers.FloatField(min_value=0, max_value=1)
    sampleSize = serializers.IntegerField(min_value=0)


@extend_schema_field(
    {
        "type": "array",
        "items": VARIANT,
        "minItems": 2,
        "maxItems": MAX_VARIANTS,
        "description": "The first one is the control. Keys are distinct, and at least one weight is above 0.",
    }
)
class VariantsField(serializers.JSONField):
    """Variants as they were sent; the domain checks them."""


@extend_schema_field({"type": "array", "items": NAME, "maxItems": MAX_METRICS, "uniqueItems": True})
class MetricsField(serializers.JSONField):
    """Names of metrics; the domain checks them."""


class PlanNumberField(RawField):
    """A whole number of a plan, which may be written with a fraction of 0, such as 7.0; the domain checks it."""

    def to_internal_value(self, data: Any) -> Any:
        return int(data) if isinstance(data, float) and data.is_integer() else data


class DrivenFlagField(RawField):
    """The flag to drive. Its position is a whole number, which may be written as 1.0; the domain checks it."""

    def to_internal_value(self, data: Any) -> Any:
        position = data.get("position") if isinstance(data, dict) else None
        return {**data, "position": int(position)} if isinstance(position, float) and position.is_integer() else data


class ExperimentEntrySerializer(serializers.Serializer[Any]):
    """An experiment in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField()
    status = serializers.ChoiceField(choices=Status.choices)
    variants = ArrayField(child=KeyField(), source="variant_keys")
    createdAt = TimestampField(source="created_at")


class ExperimentSerializer(StrictSerializer):
    """An experiment with its results."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    status = serializers.ChoiceField(choices=Status.choices, read_only=True)
    variants = VariantsField()
    metrics = MetricsField(required=False)
    tuningSampleSize = PlanNumberField(
        TUNING_SIZE_OF_INTERVALS, source="given_tuning_size", required=False, allow_null=True
    )
    percentage = RawField(PERCENTAGE, required=False, allow_null=True)
    conditions = RawField(CONDITIONS, required=False, allow_null=True)
    group = RawField(GROUP, required=False, allow_null=True)
    forcedVariants = RawField(FORCED, source="forced_variants", required=False, allow_null=True)
    flag = DrivenFlagField(DRIVEN_FLAG, required=False, allow_null=True)
    plannedSampleSize = PlanNumberField(PLANNED, source="planned_size", required=False, allow_null=True)
    minimumEffect = RawField(MINIMUM_EFFECT, source="minimum_effect", required=False, allow_null=True)
    analysis = RawField(ANALYSIS, required=False, allow_null=True)
    minimumDays = PlanNumberField(MINIMUM_DAYS_OF_RUN, source="minimum_days", required=False, allow_null=True)
    lookbackDays = PlanNumberField(DAYS_OF_LOOKBACK, source="lookback_days", required=False, allow_null=True)
    owner = TextField(
        required=False,
        allow_null=True,
        allow_blank=True,
        max_length=NAME_LENGTH,
        help_text="The person or team to ask about the experiment.",
    )
    hypothesis = TextField(
        required=False,
        allow_null=True,
        allow_blank=True,
        max_length=DESCRIPTION_LENGTH,
        help_text="What the change should cause, and why.",
    )
    registration = RawField(REGISTRATION, read_only=True)
    phases = RawField(PHASES, read_only=True)
    winner = KeyField(read_only=True, help_text="The variant that Get Variant answers to all users since the stop.")
    holdback = NumberField(
        read_only=True,
        help_text="The percentage of the users to whom the winner was shipped who still get the value of the control.",
    )
    shipTo = RawField(
        {"type": "string", "enum": [*ShipTo], "description": "To whom the flag serves the winner since the stop."},
        source="ship_to",
        read_only=True,
    )
    results = serializers.SerializerMethodField()
    createdAt = TimestampField(source="created_at", read_only=True)
    startedAt = TimestampField(source="started_at", read_only=True)
    stoppedAt = TimestampField(source="stopped_at", read_only=True)
    countsUntil = TimestampField(
        source="counts_until",
        read_only=True,
        help_text="Until when events count after the stop for metrics with a window, because the stop was to "
        "`keepCounting`. Left out if the stop cut open windows off.",
    )
    archivedAt = TimestampField(source="archived_at", read_only=True)

    left_out_while_empty = (
        *("tuningSampleSize", "percentage", "conditions", "group", "forcedVariants", "flag", "plannedSampleSize"),
        *("minimumEffect", "analysis", "minimumDays", "lookbackDays", "owner", "hypothesis"),
        *("registration", "phases", "winner", "holdback", "shipTo", "startedAt", "stoppedAt"),
        *("countsUntil", "archivedAt"),
    )

    @extend_schema_field(serializers.DictField(child=VariantResultSerializer()))
    def get_results(self, experiment: Experiment) -> dict[str, dict[str, float]]:
        return {
            key: {"conversion": result.conversion, "sampleSize": result.sample_size}
            for key, result in compute_results(experiment, self.context["now"]).items()
        }

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        shown |= _plan_beyond_defaults(instance)
        shown["registration"] = None if _is_plain(instance) else instance.registration
        shown["percentage"] = None if instance.percentage == WHOLE else integer_if_whole(instance.percentage)
        shown["phases"] = shown_phases(instance.phases)
        return {
            name: value
            for name, value in shown.items()
            if name not in self.left_out_while_empty or value not in (None, "", [], {})
        }


def _plan_beyond_defaults(experiment: Experiment) -> dict[str, Any]:
    """Return the properties of the plan that have defaults, with None in place of a default."""
    is_default_size = experiment.tuning_size == TUNING_SIZE and experiment.planned_size is None
    values = {
        "minimumDays": (experiment.minimum_days, MINIMUM_DAYS),
        "lookbackDays": (experiment.lookback_days, LOOKBACK_DAYS),
        "analysis": (experiment.analysis, AnalysisMethod.SEQUENTIAL),
    }
    beyond = {name: None if value == default else value for name, (value, default) in values.items()}
    return {**beyond, "tuningSampleSize": None if is_default_size else experiment.tuning_size}


def _is_plain(experiment: Experiment) -> bool:
    """Return whether the registration says no more than the list of metrics, apart from defaults."""
    primary = experiment.metrics[0] if experiment.metrics else None
    plain = {
        "primaryMetric": primary,
        "direction": primary and "increase",
        "windowHours": None,
        "metrics": experiment.metrics,
        **_PLAIN_PLAN,
    }
    return experiment.registration in (None, plain)


_PLAIN_PLAN = registered_plan({**new_plan(), "variants": []})


def shown_phases(phases: list[Document]) -> list[Document]:
    """Return the phases with their numbers; none if there is only one, of all users."""
    if len(phases) == 1 and phases[0]["percentage"] == WHOLE and not phases[0]["conditions"]:
        return []
    numbered = enumerate(phases, start=1)
    return [{"number": number, **each, "percentage": integer_if_whole(each["percentage"])} for number, each in numbered]


class ExperimentUpdateSerializer(ExperimentSerializer):
    """The properties of a draft that can be changed. You may send the others back as you read them,
    and null removes a property.
    """

    computed = frozenset({"results"})
    key = KeyField(read_only=True)


class PhaseSerializer(StrictSerializer):
    """How users are assigned from now on. A property that is not sent stays as it is."""

    variants = VariantsField(required=False, help_text="The variants of the experiment in their order, with weights.")
    percentage = RawField(PERCENTAGE, required=False, allow_null=True)
    conditions = RawField(CONDITIONS, required=False, allow_null=True)
    reason = TextField(
        required=False,
        max_length=REASON_LENGTH,
        help_text="Why the phase is opened; required here or as `X-Change-Reason`. The results show it.",
    )


class ReopenSerializer(StrictSerializer):
    """Why an experiment is opened again."""

    is_optional = True
    reason = TextField(
        required=False,
        max_length=REASON_LENGTH,
        help_text="The reason for the history. It takes precedence over `X-Change-Reason`.",
    )


class StopSerializer(ReopenSerializer):
    """How an experiment ends: without a decision, unless it names a winner."""

    winner = KeyField(
        required=False, help_text="The key of the variant that Get Variant answers to all users from now on."
    )
    holdback = NumberField(
        required=False,
        min_value=0,
        max_value=MAX_HOLDBACK,
        help_text="The percentage of users to whom the flag still serves the value of the "
        "control. It requires a winner, and a flag whose value for the winner differs from that "
        "for the control.",
    )
    shipTo = RawField(SHIP_TO, source="ship_to", required=False)
    enable = SwitchField(
        required=False,
        help_text="Whether to switch the flag on in the same transaction. It is required if there is a winner and the "
        "flag is off, and refused otherwise. With `false`, nobody gets the winner by the flag until it is on.",
    )
    keepCounting = SwitchField(
        source="keep_counting",
        required=False,
        help_text="Whether events go on counting for metrics with a window until the windows of all exposed users are "
        "over. The results freeze afterwards. It is refused if no metric has a window. Default: false, which cuts "
        "open windows off.",
    )


class AssignmentRequestSerializer(StrictSerializer):
    """The user to assign, and the user's attributes at this moment."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    attributes = ObjectField(
        required=False,
        help_text="The attributes that conditions test. A new exposure stores them for breakdowns of the results. It "
        f"keeps texts of up to {TEXT_LENGTH} characters, numbers and booleans with names of up to {ATTRIBUTE_LENGTH} "
        f"characters, and of these the first {MAX_ATTRIBUTES}. It keeps `b` within an object `a` as `a.b`.",
    )


class AssignmentsRequestSerializer(AssignmentRequestSerializer):
    """The user to assign in all running experiments."""

    record = SwitchField(
        required=False,
        help_text="Whether to record exposures to the experiments that include the user. Default: false.",
    )


_REASONS = " ".join(f"`{reason}`: {meaning}" for reason, meaning in REASONS.items())
_REASONS_WHILE_RUNNING = [reason for reason in REASONS if reason != WINNER]


class Assignment(Answer):
    """The variant that the user sees from now on. If the user is not in the experiment, also the reason."""

    variant: Key
    experiment_id: UUID
    in_experiment: Annotated[
        bool | UnsetType, described("False if the user is not in the experiment; otherwise left out.")
    ] = UNSET
    reason: Annotated[
        str | UnsetType, one_of(REASONS), described(f"Why the user is not in the experiment. {_REASONS}")
    ] = UNSET


class RunningAssignment(Answer):
    """The variant of the user in one of the running experiments."""

    experiment: Key
    experiment_id: UUID
    variant: Key
    in_experiment: Annotated[bool, described("Whether the user is in the experiment.")]
    reason: Annotated[
        str | UnsetType,
        one_of(_REASONS_WHILE_RUNNING),
        described("Why the user is not in the experiment; otherwise left out."),
    ] = UNSET
