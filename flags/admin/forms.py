"""The forms of flags and segments."""

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
    ("", "On or off only"),
    (ValueType.BOOLEAN, "True or false"),
    (ValueType.STRING, "Text"),
    (ValueType.NUMBER, "A number"),
    (ValueType.OBJECT, "JSON"),
]


def _variant(label: str, otherwise: str, help_text: str) -> TextField:
    """A field for the key of a variant, which a script turns into a select. `otherwise` labels the empty choice."""
    widget = UnfoldAdminTextInputWidget({"data-none": otherwise})
    return TextField(label=label, widget=widget, help_text=help_text)


class FlagForm(EnvironmentalForm):
    key = TextField(required=True, help_text="The name in the code, such as new-checkout. It cannot be changed later.")
    description = DescriptionField(help_text="What the flag is for. All environments share it.")
    enabled = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text="If this is off, the flag is off for everyone in this environment. Rules are ignored.",
    )
    rules = JSONField(
        name="rules",
        editor="rules",
        help_text="The first rule that matches a user decides. Without rules, the flag is on for everyone.",
    )
    type = forms.ChoiceField(
        choices=_TYPES,
        required=False,
        label="Value type",
        widget=UnfoldAdminSelectWidget(),
        help_text="The type of value that the flag returns in addition to on or off.",
    )
    variants = JSONField(
        name="variants", editor="variants", help_text="The values that the flag can return, each with a key."
    )
    default_variant = _variant(
        "Variant when on", "The first suitable one", "Served if the rule names no variant, or if there are no rules."
    )
    off_variant = _variant("Variant when off", "The last suitable one", "Served to users for whom the flag is off.")
    schema = JSONField(
        name="schema",
        blank=lambda: None,
        rows=6,
        label="JSON Schema",
        help_text="Optional. All values must be valid against this schema (draft 2020-12).",
    )
    prerequisites = JSONField(
        name="prerequisites",
        editor="prerequisites",
        help_text="If one of these flags is off for a user, this flag is off for that user, too.",
    )
    tags = WordsField(help_text="Words to find the flag by, separated by commas.")
    owner = TextField(help_text="The person or team responsible for the flag.")
    expires_at = MomentField(
        label="Expires", help_text="When the flag should be removed, in UTC. This is a reminder only."
    )
    client_visible = forms.BooleanField(
        required=False,
        initial=True,
        label="Visible to client keys",
        widget=UnfoldBooleanSwitchWidget(),
        help_text="If this is off, apps and web pages with a client key do not get this flag, in any environment.",
    )
    # The edit is refused if the flag has another version than the page showed.
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (
            Script("flags/variants.js", type="module", blocking="render"),
            Script("flags/rules.js", type="module", blocking="render"),
            Script("flags/prerequisites.js", type="module", blocking="render"),
            Script("flags/flips.js", type="module", blocking="render"),
        )


class SegmentForm(DomainForm):
    key = TextField(required=True, help_text="The name in rules, such as beta-testers. It cannot be changed later.")
    description = DescriptionField(help_text="Which users the segment is for.")
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Users who meet all of these conditions are in the segment."
    )
    user_ids = LinesField(
        label="User IDs",
        help_text="One a line, up to 100,000. These users are always in the segment. "
        "An ID with a line break is in double quotes, with \\n for the break.",
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (
            Script("flags/segment.js", type="module", blocking="render"),
            Script("flags/user_ids.js", type="module", blocking="render"),
        )

    def is_multipart(self) -> bool:
        # URL encoding would take six bytes for each line break, and lists can be long.
        return True
