"""What may be sent along when a new phase is opened; the domain checks what is in it.

What may be sent along when an experiment is stopped, and when it is opened again."""

from __future__ import annotations

from config.api.change_reason import REASON_LENGTH
from config.api.serializers import KeyField, NumberField, RawField, StrictSerializer, TextField
from experiments.api.design_schema import CONDITIONS, PERCENTAGE
from experiments.api.experiment_serializers import VariantsField
from experiments.lifecycle.decisions import MOST_HELD_BACK


class PhaseSerializer(StrictSerializer):
    """How users are assigned from now on. What is left out stays as it is."""

    variants = VariantsField(required=False, help_text="The variants of the experiment in their order, with weights.")
    percentage = RawField(PERCENTAGE, required=False, allow_null=True)
    conditions = RawField(CONDITIONS, required=False, allow_null=True)
    reason = TextField(
        required=False,
        max_length=REASON_LENGTH,
        help_text="Why; needed, here or as `X-Change-Reason`. It stands beside the phase in results.",
    )


class ReopenSerializer(StrictSerializer):
    """Why an experiment is opened again."""

    is_optional = True
    reason = TextField(
        required=False,
        max_length=REASON_LENGTH,
        help_text="Why, for the history; the same as `X-Change-Reason`, and before it where both are sent.",
    )


class StopSerializer(ReopenSerializer):
    """How an experiment ends: undecided, unless a winner is named."""

    winner = KeyField(required=False, help_text="The key of the variant that everybody sees from now on.")
    holdback = NumberField(
        required=False,
        min_value=0,
        max_value=MOST_HELD_BACK,
        help_text="The percentage of users for whom the flag goes on serving what it does for the control; only with a "
        "winner, and where the experiment drives a flag that serves something else for it than for the control.",
    )
