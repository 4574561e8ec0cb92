"""The outcome of an analysis: every measure in every variant, the sample ratio, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from experiments.stats.types import Estimate, Reason, VariantEstimate


@dataclass(frozen=True, slots=True)
class MeasureAnalysis:
    """One measure in every variant, in the order of the design.

    `before` has each treatment's difference from the control before the exposure. `left_out` has the indexes of the
    strata in which a treatment and the control took part, but one of them has too few users to compare.
    """

    key: str
    variants: Sequence[VariantEstimate]
    before: Mapping[str, Estimate | Reason]
    left_out: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """The check for a sample ratio mismatch (SRM). `expected` are the users by variant key that the weights give."""

    expected: Mapping[str, float]
    chi_square_p: float
    always_valid_p: float
    is_mismatch: bool


class Decision(StrEnum):
    """What a verdict advises."""

    SHIP = "ship"
    DO_NOT_SHIP = "do_not_ship"
    KEEP_RUNNING = "keep_running"
    NO_DIFFERENCE = "no_difference"
    INCONCLUSIVE = "inconclusive"
    CHECK_DATA = "check_data"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do. `variant` is the one to ship, and None for every other decision.

    `rule` is the name of the rule in `verdict.RULES` that decided.
    """

    decision: Decision
    variant: str | None
    reasons: Sequence[Reason]
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results of an analysis.

    `measures` are in the order of the inputs. `harmed` has the guardrails that each treatment harms, by key.
    """

    measures: Sequence[MeasureAnalysis]
    sample_ratio: SampleRatio | Reason
    harmed: Mapping[str, Sequence[str]]
    verdict: Verdict
