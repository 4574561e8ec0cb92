"""The form of a flag, as it stands in the environment that one works in."""

from __future__ import annotations

from django import forms
from django.forms.widgets import Script
from unfold.widgets import UnfoldBooleanSwitchWidget

from config.forms import DescriptionField, EnvironmentalForm, JSONField, TextField


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
    # The version that was looked at; an edit of any other is refused.
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (Script("flags/rules.js", type="module"),)
