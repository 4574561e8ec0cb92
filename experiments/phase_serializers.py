"""What may be sent along when a new phase is opened; the domain checks what is in it."""

from __future__ import annotations

from config.api.change_reason import REASON_LENGTH
from config.api.serializers import RawField, StrictSerializer, TextField
from experiments.design_schema import CONDITIONS, PERCENTAGE
from experiments.serializers import VariantsField


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
