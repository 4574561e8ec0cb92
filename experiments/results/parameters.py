"""What may be asked for of the results of an experiment: only what it has. The refusals say what that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from experiments.design.phases import choices
from experiments.models import Experiment

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked for by the name of a parameter, if anything, and all that there is."""

    parameter: str
    value: str | None
    known: Sequence[str]
    what: str

    @property
    def refusal(self) -> Detail:
        """What to tell where the value is not known."""
        named = [*self.known[:_MOST_NAMED], *(["..."] if len(self.known) > _MOST_NAMED else [])]
        message = f"Must be {self.what}: {', '.join(named)}." if named else f"Must be {self.what}; there is none."
        return Detail(self.parameter, DetailCode.UNKNOWN_REFERENCE, message)


def metric_choice(experiment: Experiment, value: str | None) -> Choice:
    return Choice("metric", value, experiment.metrics, "a metric of the experiment")


def variant_choice(experiment: Experiment, parameter: str, value: str | None) -> Choice:
    return Choice(parameter, value, experiment.variant_keys, "a variant of the experiment")


def phase_choice(experiment: Experiment, value: str | None) -> Choice:
    return Choice("phase", value, choices(experiment.phases), "all, or the number of a phase of the experiment")


def refuse_unknown(*choices: Choice) -> None:
    """Raise ValidationFailed with all choices whose value there is not."""
    wrong = [choice for choice in choices if choice.value is not None and choice.value not in choice.known]
    if wrong:
        raise ValidationFailed([choice.refusal for choice in wrong], code=ErrorCode.INVALID_PARAMETER)
