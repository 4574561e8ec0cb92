"""Experiments as JSON. `experiments.design` checks what they may be made of; the serializers check JSON's types."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from config.api.schema import KEY, NAME, closed_object, component
from config.api.serializers import (
    ArrayField,
    KeyField,
    ObjectField,
    StrictSerializer,
    TextField,
    TimestampField,
    WholeNumberField,
)
from config.keys import KEY_RULE, NAME_LENGTH
from experiments.attributes import ATTRIBUTE_LENGTH, MOST_ATTRIBUTES, TEXT_LENGTH
from experiments.design import (
    DESCRIPTION_LENGTH,
    LEAST_TUNING_SIZE,
    MOST_METRICS,
    MOST_TUNING_SIZE,
    MOST_VARIANTS,
    TUNING_SIZE,
)
from experiments.models import Experiment, Status
from experiments.results.computing import compute_results


class VariantResultSerializer(serializers.Serializer[Any]):
    """`sampleSize`: distinct users exposed; `conversion`: the share of them with an event of the first metric."""

    conversion = serializers.FloatField(min_value=0, max_value=1)
    sampleSize = serializers.IntegerField(min_value=0)


_WEIGHT = {"type": "number", "minimum": 0, "description": "Relative to the sum of all, which need not be 1 or 100."}
_VARIANT = closed_object({"key": KEY, "weight": _WEIGHT}, "A variant and its share of the users.")


@extend_schema_field(
    {
        "type": "array",
        "items": component("Variant", _VARIANT),
        "minItems": 2,
        "maxItems": MOST_VARIANTS,
        "description": "The first one is the control. Keys are distinct, and one weight at least is above 0.",
    }
)
class VariantsField(serializers.JSONField):
    """Variants as they were sent; the domain checks them."""


@extend_schema_field({"type": "array", "items": NAME, "maxItems": MOST_METRICS, "uniqueItems": True})
class MetricsField(serializers.JSONField):
    """Names of metrics; the domain checks them."""


class ExperimentEntrySerializer(serializers.Serializer[Any]):
    """An experiment in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField()
    status = serializers.ChoiceField(choices=Status.choices)
    variants = ArrayField(child=KeyField(), source="variant_keys")
    createdAt = TimestampField(source="created_at")


class ExperimentSerializer(StrictSerializer):
    """An experiment with its results at the moment `at` of the context. The times are there once they exist."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    status = serializers.ChoiceField(choices=Status.choices, read_only=True)
    variants = VariantsField()
    metrics = MetricsField(required=False)
    tuningSampleSize = WholeNumberField(
        source="tuning_size",
        required=False,
        min_value=LEAST_TUNING_SIZE,
        max_value=MOST_TUNING_SIZE,
        help_text=f"At how many users the always-valid intervals are narrowest; {TUNING_SIZE:,} unless set.",
    )
    results = serializers.SerializerMethodField()
    createdAt = TimestampField(source="created_at", read_only=True)
    startedAt = TimestampField(source="started_at", read_only=True)
    stoppedAt = TimestampField(source="stopped_at", read_only=True)

    left_out_while_empty = ("startedAt", "stoppedAt")

    @extend_schema_field(serializers.DictField(child=VariantResultSerializer()))
    def get_results(self, experiment: Experiment) -> dict[str, dict[str, float]]:
        return {
            key: {"conversion": result.conversion, "sampleSize": result.sample_size}
            for key, result in compute_results(experiment, self.context["at"]).items()
        }

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        return {name: value for name, value in shown.items() if value is not None}


class ExperimentUpdateSerializer(ExperimentSerializer):
    """What of a draft can be changed; the rest may be sent back as it was read."""

    computed = frozenset({"results"})
    key = KeyField(read_only=True)


class AssignmentRequestSerializer(StrictSerializer):
    """The user to assign, and what is known of them at this moment."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    attributes = ObjectField(
        required=False,
        help_text="Kept with a new exposure, to break results down by: the first "
        f"{MOST_ATTRIBUTES} that are texts of up to {TEXT_LENGTH} characters, numbers or booleans and have names of up "
        f"to {ATTRIBUTE_LENGTH} characters. All others are left out.",
    )


class AssignmentSerializer(serializers.Serializer[Any]):
    """The variant that the user sees from now on."""

    variant = KeyField()
    experimentId = serializers.UUIDField(source="experiment_id")
