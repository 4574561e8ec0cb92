"""The forms of flags, as they stand in the environment that one works in, and of segments."""

from __future__ import annotations

from django import forms
from django.forms.widgets import Script
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from config.admin.forms import (
    DescriptionField,
    DomainForm,
    EnvironmentalForm,
    JSONField,
    LinesField,
    MomentField,
    TextField,
    WordsField,
)
from flags.engine.types import ValueType

_TYPES = [
    ("", "Nothing but on or off"),
    (ValueType.BOOLEAN, "True or false"),
    (ValueType.STRING, "Text"),
    (ValueType.NUMBER, "A number"),
    (ValueType.OBJECT, "JSON"),
]


def _variant(label: str, otherwise: str, help_text: str) -> TextField:
    """The key of a variant, which a script turns into a choice; `otherwise` tells what it is where none is named."""
    widget = UnfoldAdminTextInputWidget({"data-none": otherwise})
    return TextField(label=label, widget=widget, help_text=help_text)


class FlagForm(EnvironmentalForm):
    key = TextField(required=True, help_text="What the code asks for, such as new-checkout. It never changes.")
    description = DescriptionField(help_text="What it is for. Common to all environments.")
    enabled = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Off means off for everyone in this environment, whatever the rules say.",
    )
    rules = JSONField(
        name="rules",
        editor="rules",
        help_text="Tried from the top; the first that takes a user in decides. With no rules it is on for everyone.",
    )
    type = forms.ChoiceField(
        choices=_TYPES,
        required=False,
        label="It says",
        widget=UnfoldAdminSelectWidget(),
        help_text="What the code is told besides on or off.",
    )
    variants = JSONField(name="variants", editor="variants", help_text="The values that it may have, each with a key.")
    default_variant = _variant(
        "When on", "The first that fits", "Served where a rule names no variant, and where there are no rules."
    )
    off_variant = _variant("When off", "The last that fits", "Served to everyone for whom the flag is off.")
    schema = JSONField(
        name="schema",
        blank=lambda: None,
        rows=6,
        label="JSON Schema",
        help_text="Optional. Every value has to meet it (draft 2020-12).",
    )
    prerequisites = JSONField(
        name="prerequisites",
        editor="prerequisites",
        help_text="Where one of these is not on for a user, this flag is off for that user.",
    )
    tags = WordsField(help_text="Words to find it by, with commas between them.")
    owner = TextField(help_text="Who answers questions about it.")
    expires_at = MomentField(label="Expires", help_text="When it should be gone, in UTC. It only reminds you.")
    # The version that was looked at; an edit of any other is refused.
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (
            Script("flags/variants.js", type="module"),
            Script("flags/rules.js", type="module"),
            Script("flags/prerequisites.js", type="module"),
        )


class SegmentForm(DomainForm):
    key = TextField(required=True, help_text="What rules call it, such as beta-testers. It never changes.")
    description = DescriptionField(help_text="Who they are.")
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Users for whom all of these hold are in the segment."
    )
    user_ids = LinesField(label="User ids", help_text="One a line, up to 100,000. They are in the segment in any case.")
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (Script("flags/segment.js", type="module"), Script("flags/user_ids.js", type="module"))

    def is_multipart(self) -> bool:
        # Line breaks would take six bytes each in the other encoding, and lists can be long.
        return True
