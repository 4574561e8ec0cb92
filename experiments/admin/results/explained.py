"""How the figure of one metric in one variant comes about, as a table that one can follow from above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.admin.results.rows import writer_of_values
from experiments.admin.words import NO_FIGURE, definition_in_words, number
from experiments.metrics.definition import Definition


@dataclass(frozen=True, slots=True)
class Step:
    """What one condition, and all above it, leave."""

    words: str
    events: str
    users: str


@dataclass(frozen=True, slots=True)
class Explained:
    """`denominator` is empty for all but ratios; `sums` tell what is made of what is left, up to the value."""

    words: str
    steps: Sequence[Step]
    denominator: Sequence[Step]
    sums: Sequence[tuple[str, str]]


def explained(definition: Definition, document: Mapping[str, Any]) -> Explained:
    """`document` is what `experiments.results.explanation` makes of the metric in the variant."""
    return Explained(
        words=definition_in_words(definition, document["cap"]),
        steps=_steps(document["steps"]),
        denominator=_steps(document["denominatorSteps"] or ()),
        sums=_sums(definition, document),
    )


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[Step]:
    return [Step(each["description"], f"{each['rows']:,}", f"{each['users']:,}") for each in steps]


def _sums(definition: Definition, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [("Exposed users", f"{document['users']:,}")]
    if document["cap"] is not None:
        found.append((f"Users above the cap of {number(document['cap'])}", f"{document['cappedUsers']:,}"))
    found.append((_name_of_sum(definition), number(document["sum"])))
    if document["denominatorSum"] is not None:
        found.append(("Denominator, of all users", number(document["denominatorSum"])))
    value = NO_FIGURE if document["value"] is None else writer_of_values(definition)(document["value"])
    return [*found, (_name_of_value(definition), value)]


def _name_of_sum(definition: Definition) -> str:
    if definition.is_share:
        return "Users who did it"
    return "Numerator, of all users" if definition.denominator else "Sum over all users"


def _name_of_value(definition: Definition) -> str:
    return "Numerator divided by denominator" if definition.denominator else "That divided by the exposed users"
