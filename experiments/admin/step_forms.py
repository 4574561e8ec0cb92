"""What is typed on the pages that take an experiment a step further. The domain says what is acceptable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms.widgets import Script

from config.admin.forms import JSONField, NumberField, ReasonField, StrictForm, TextField
from config.errors import DomainError
from experiments.admin.words import served_in_words
from experiments.models import WHOLE, Experiment


@dataclass(frozen=True, slots=True)
class Choice:
    """A variant that may win: what its flag serves for it, and what speaks against it."""

    key: str
    served: str
    is_control: bool
    is_by_verdict: bool
    is_chosen: bool
    against: Sequence[str]


class ShipForm(StrictForm, forms.Form):
    """Which variant wins. None is chosen beforehand but the one of the verdict."""

    winner = TextField(required=True, error_messages={"required": "Choose the variant that everybody is to see."})
    holdback = NumberField(
        help_text="Percent of the flag's users, 0 to 50, who go on seeing what the control does, to compare with."
    )
    reason = ReasonField()

    class Media:
        js = (Script("experiments/ship.js", type="module"),)

    def __init__(
        self, data: Any, *, experiment: Experiment, winner: str | None, against: Mapping[str, Sequence[str]]
    ) -> None:
        super().__init__(data, initial={"winner": winner}, label_suffix="")
        self.experiment, self.by_verdict, self.against = experiment, winner, against
        if not experiment.flag:
            del self.fields["holdback"]

    @property
    def values(self) -> dict[str, Any]:
        """What `stop_experiment` takes."""
        return {"holdback": None, **self.cleaned_data}

    @property
    def choices(self) -> list[Choice]:
        chosen = self["winner"].value()
        return [
            Choice(
                key,
                served_in_words(self.experiment, key),
                is_control=place == 0,
                is_by_verdict=key == self.by_verdict,
                is_chosen=key == chosen,
                against=self.against[key],
            )
            for place, key in enumerate(self.experiment.variant_keys)
        ]


class PhaseForm(StrictForm, forms.Form):
    """How users are assigned from now on, which starts as it is by now."""

    percentage = NumberField(help_text="Of those who meet the conditions, how many percent are taken in. Empty: all.")
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Only users for whom all of these hold are taken in."
    )
    reason = ReasonField()

    class Media:
        js = (Script("experiments/audience.js", type="module"),)

    def __init__(self, data: Any, *, experiment: Experiment) -> None:
        whole = experiment.percentage == WHOLE
        started = {"percentage": None if whole else experiment.percentage, "conditions": experiment.conditions}
        super().__init__(data, initial=started, label_suffix="")
        self.keys = experiment.variant_keys
        for place, variant in enumerate(experiment.variants):
            self.fields[_weight(place)] = NumberField(label=variant["key"], initial=variant["weight"])
        self.fields["reason"].required = True
        self.fields["reason"].help_text = "Why it changes; the results page shows it beside the phase."

    @property
    def weights(self) -> list[Any]:
        return [self[_weight(place)] for place in range(len(self.keys))]

    @property
    def values(self) -> dict[str, Any]:
        """What `open_phase` takes."""
        typed = self.cleaned_data
        variants = [{"key": key, "weight": typed[_weight(place)]} for place, key in enumerate(self.keys)]
        changes = {"variants": variants, "percentage": typed["percentage"], "conditions": typed["conditions"]}
        return {"changes": changes, "reason": typed["reason"]}

    def add_refusal(self, refusal: DomainError) -> None:
        """What is wrong with the variants stands by the weight that it names, or else by the first."""
        others = []
        for detail in refusal.details:
            if not detail.field.startswith("variants"):
                others.append(detail)
                continue
            named = [place for place in range(len(self.keys)) if detail.field.startswith(f"variants[{place}]")]
            self.add_error(_weight(named[0] if named else 0), detail.message)
        if others or not refusal.details:
            super().add_refusal(DomainError(refusal.code, refusal.message, others))


def _weight(place: int) -> str:
    return f"weight_{place}"
