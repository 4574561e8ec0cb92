"""The body of a promotion as JSON."""

from __future__ import annotations

from typing import Any

from config.api.serializers import ArrayField, KeyField, StrictSerializer, SwitchField

MOST_FLAGS = 1000


class PromotionSerializer(StrictSerializer):
    """Which flags become what they are in which other environment."""

    flags = ArrayField(
        child=KeyField(),
        required=False,
        min_length=1,
        max_length=MOST_FLAGS,
        help_text="Their keys; without it, all that are not archived.",
    )
    dryRun = SwitchField(required=False, help_text="Only tell what would change.")

    def get_fields(self) -> dict[str, Any]:
        # The name is a word of Python's own.
        return {"from": KeyField(help_text="The key of the environment that is read."), **super().get_fields()}
