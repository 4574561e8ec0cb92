"""The choice of what a stop does to open windows: cut them off, or let them go on counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.admin.words import describe_moment
from experiments.lifecycle.objections import against_cutting_off
from experiments.metrics.definition import longest_span
from experiments.results.cut_off import find_cut_off
from experiments.results.types import Results

KEEP = "true"
"""The value of the field `keep_counting` with which windows go on counting."""


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """What a stop can do to open windows. `cut_off` has a sentence by metric; `objections` demand a reason."""

    value: str
    label: str
    note: str
    is_chosen: bool
    cut_off: Sequence[str] = ()
    objections: Sequence[str] = ()


def window_choices(results: Results, chosen: str, *, ships: bool) -> list[WindowChoice]:
    """Return the two choices; none where no metric has a window."""
    span = longest_span(results.experiment)
    if span is None:
        return []
    last = describe_moment(results.as_of + span)
    frozen = "The results are final at once." if ships else "Later events do not count."
    cut_off = [each.sentence for each in find_cut_off(results)] or ["No window is open."]
    shown = " Everybody gets the winner at once, so differences may shrink." if ships else ""
    return [
        WindowChoice(
            "",
            "Cut them off",
            f"{frozen} Users whose windows are open never count.",
            chosen != KEEP,
            cut_off,
            [each.message for each in against_cutting_off(results)] if ships else [],
        ),
        WindowChoice(
            KEEP,
            "Go on counting",
            f"Nobody new is exposed. Events in the windows count until about {last}, and then the results become "
            f"final.{shown}",
            chosen == KEEP,
        ),
    ]
