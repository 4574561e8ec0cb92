"""The form that ships a variant: the winner, to whom the flag serves it, the holdback, and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms.widgets import Script
from django.utils import timezone
from django.utils.functional import cached_property

from config.admin.forms import ReasonField, StrictForm, TextField
from config.admin.numbers import PercentageField
from config.change_log.named_users import fill, part_of
from experiments.admin.open_windows import KEEP, WindowChoice, window_choices
from experiments.admin.words import describe_audience, describe_served
from experiments.lifecycle.affected_users import Affected, affected_by_shipping, describe_affected
from experiments.lifecycle.flag_rule import is_on, removed_rules
from experiments.lifecycle.objections import against_removal
from experiments.metrics.definition import longest_span
from experiments.models import Status
from experiments.results.types import Results
from flags.changes.experiment_rules import ShipTo
from flags.usage.comparison import Preview
from flags.usage.previews import NoSample

_SHIP_TO = ((ShipTo.AUDIENCE, "The experiment's audience"), (ShipTo.EVERYONE, "Everyone"))


@dataclass(frozen=True, slots=True)
class WinnerChoice:
    """A variant that can be shipped: what the flag serves for it, and the objections to it."""

    key: str
    served: str
    is_control: bool
    is_verdict: bool
    is_chosen: bool
    objections: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShipToChoice:
    """The users to whom a variant can be shipped, the objections to that, and whom each variant affects."""

    key: str
    label: str
    note: str
    is_chosen: bool
    objections: Sequence[str]
    affected: Sequence[str]
    outsiders: str
    """The variants that change what users outside of the experiment see: their keys, separated by spaces."""


class ShipForm(StrictForm, forms.Form):
    """The form that ships a variant. The variant of the verdict is preselected."""

    winner = TextField(required=True, error_messages={"required": "Choose the variant to ship."})
    ship_to = forms.ChoiceField(
        choices=[(key.value, label) for key, label in _SHIP_TO],
        initial=ShipTo.AUDIENCE.value,
        required=False,
    )
    holdback = PercentageField(
        help_text="The share of these users, up to 50 %, who still get the control, for later comparison."
    )
    enable = forms.TypedChoiceField(
        choices=[("true", "Switch it on: it serves the winner at once."), ("false", "Leave it off for now.")],
        coerce=lambda chosen: chosen == "true",
        error_messages={"required": "Choose whether to switch the flag on."},
    )
    keep_counting = forms.TypedChoiceField(
        choices=[("", "Cut them off"), (KEEP, "Go on counting")],
        required=False,
        coerce=lambda chosen: chosen == KEEP,
    )
    reason = ReasonField()

    class Media:
        js = (Script("experiments/ship.js", type="module", blocking="render"),)

    def __init__(self, data: Any, *, results: Results, objections: Mapping[str, Sequence[str]]) -> None:
        experiment, winner = results.experiment, results.verdict.variant
        super().__init__(data, initial={"winner": winner}, label_suffix="")
        self.results, self.experiment, self.verdict, self.objections = results, experiment, winner, objections
        if longest_span(experiment) is None:
            del self.fields["keep_counting"]
        if not experiment.flag:
            del self.fields["holdback"], self.fields["ship_to"]
        if not experiment.flag or experiment.status != Status.RUNNING or is_on(experiment):
            del self.fields["enable"]

    @property
    def values(self) -> dict[str, Any]:
        """Return the arguments of `stop_experiment`."""
        typed = {"holdback": None, "enable": None, **self.cleaned_data}
        keep_counting = bool(typed.get("keep_counting"))
        return {**typed, "ship_to": typed.get("ship_to") or None, "keep_counting": keep_counting}

    @cached_property
    def ship_to_choices(self) -> list[ShipToChoice]:
        """Return to whom the winner can be shipped; empty without a flag."""
        if "ship_to" not in self.fields:
            return []
        chosen, audience = self["ship_to"].value() or ShipTo.AUDIENCE, describe_audience(self.experiment)
        keys, now = self.experiment.variant_keys, timezone.now()
        is_running = self.experiment.status == Status.RUNNING
        rules = removed_rules(self.experiment, ShipTo.EVERYONE) if is_running else []
        removed = [objection.message for objection in against_removal(rules, now)]
        is_off = "enable" in self.fields
        condition = " if the flag is switched on" if is_off else ""
        affected = {
            key: affected_by_shipping(self.experiment, keys, now, ship_to=key, enable=is_off) for key, _ in _SHIP_TO
        }
        own = fill("{}{}. The flag's other rules stay.", audience[0].upper(), part_of(audience, 1))
        notes = {ShipTo.AUDIENCE: own}
        notes[ShipTo.EVERYONE] = "The flag's other rules are removed." if removed else "The flag has no other rules."
        return [
            ShipToChoice(
                key,
                label,
                notes[key],
                key == chosen,
                removed if key is ShipTo.EVERYONE else [],
                *_describe_affected(affected[key], condition),
            )
            for key, label in _SHIP_TO
        ]

    @property
    def window_choices(self) -> list[WindowChoice]:
        """Return what can happen to open windows; empty where no metric has a window."""
        if "keep_counting" not in self.fields:
            return []
        return window_choices(self.results, self["keep_counting"].value() or "", ships=True)

    @property
    def choices(self) -> list[WinnerChoice]:
        chosen = self["winner"].value()
        return [
            WinnerChoice(
                key,
                describe_served(self.experiment, key),
                is_control=index == 0,
                is_verdict=key == self.verdict,
                is_chosen=key == chosen,
                objections=self.objections[key],
            )
            for index, key in enumerate(self.experiment.variant_keys)
        ]


def _describe_affected(affected: Mapping[str, Affected], condition: str) -> tuple[list[str], str]:
    """Describe the recent users whom each variant affects, and name the variants that affect outsiders."""
    sentences = [
        each.meaning
        if isinstance(each, NoSample)
        else describe_affected(each, f"with {key}{condition}") + _outsiders(each)
        for key, each in affected.items()
    ]
    with_outsiders = (key for key, each in affected.items() if isinstance(each, Preview) and each.outsiders)
    return list(dict.fromkeys(sentences)), " ".join(with_outsiders)


def _outsiders(preview: Preview) -> str:
    if not preview.outsiders:
        return ""
    return f" {preview.outsiders:,} of them are not in the experiment, so it requires a reason."
