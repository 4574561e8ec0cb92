"""Quantiles whose error cannot be estimated: they decide nothing, and say why."""

from __future__ import annotations

import pytest

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Analysis, Decision
from experiments.stats.samples import NO_ERROR, Sample, combine, summarise
from experiments.stats.types import Measure, Quantile, Reason, ReasonCode, Stratum, Weight
from tests.experiments.stats.sums import design, inputs_of, share

ALIKE = Quantile(2000, 2000, 3.0)
HIGHER = Quantile(2000, 2000, 4.0)
VARYING = Quantile(2000, 2000, 4.0, 0.001)


def analysed(control: Quantile, treatment: Quantile, *, is_guardrail: bool) -> Analysis:
    measure = Measure("wait", "quantile", is_guardrail=is_guardrail, is_decrease_good=True)
    sums = {"control": control, "treatment": treatment}
    goal = Measure("buys", "share"), {"control": share(400, 2000), "treatment": share(600, 2000)}
    measures = [(measure, sums), *([goal] if is_guardrail else [])]
    users = {"control": 2000, "treatment": 2000}
    return analyse(inputs_of(design(), [each for each, _ in measures], [each for _, each in measures], users))


@pytest.mark.parametrize("control", [ALIKE, VARYING])
@pytest.mark.parametrize("treatment", [ALIKE, HIGHER])
def test_goal__error_of_a_variant_unknown__is_unclear_with_a_reason(control: Quantile, treatment: Quantile) -> None:
    found = analysed(control, treatment, is_guardrail=False)
    [measure] = found.measures
    [_, compared] = measure.variants
    assert (compared.value, compared.interval, compared.reason) == (treatment.value, None, NO_ERROR)
    assert compared.comparison is not None
    assert (compared.comparison.label, compared.comparison.difference, compared.comparison.lift) == (
        *("unclear", NO_ERROR),
        NO_ERROR,
    )
    assert found.verdict.decision == Decision.KEEP_RUNNING
    reason, _ = found.verdict.reasons
    assert reason.message.endswith(NO_ERROR.message)
    assert "same value" in NO_ERROR.message


@pytest.mark.parametrize("treatment", [ALIKE, HIGHER])
def test_guardrail__errors_unknown__is_undecided_whatever_the_values(treatment: Quantile) -> None:
    found = analysed(ALIKE, treatment, is_guardrail=True)
    comparison = found.measures[0].variants[1].comparison
    assert comparison is not None
    assert comparison.guardrail is not None
    assert comparison.guardrail.status == "undecided"
    assert found.harmed == {"treatment": []}
    assert found.verdict.decision == Decision.KEEP_RUNNING
    assert ReasonCode.GUARDRAIL_UNDECIDED in [reason.code for reason in found.verdict.reasons]


def test_combine__error_of_a_stratum_unknown__is_unknown() -> None:
    known, unknown = summarise("quantile", VARYING), summarise("quantile", ALIKE)
    assert isinstance(known, Sample)
    assert isinstance(unknown, Sample)
    combined = combine([(0.5, known), (0.5, unknown)])
    assert isinstance(combined, Sample)
    assert (combined.mean, combined.unknown) == (3.5, NO_ERROR)
    assert known.unknown is None


def test_strata__error_of_a_stratum_unknown__are_unclear() -> None:
    measure, weights = Measure("wait", "quantile"), [Weight("control", 1), Weight("treatment", 1)]
    users = {"control": 2000, "treatment": 2000}
    inputs = inputs_of(design(), [measure], [{"control": VARYING, "treatment": VARYING}], users)
    others = Stratum(weights, users, [{"control": VARYING, "treatment": ALIKE}])
    [found] = analyse(type(inputs)(inputs.design, inputs.measures, [*inputs.strata, others], users)).measures
    comparison = found.variants[1].comparison
    assert comparison is not None
    assert isinstance(comparison.difference, Reason)
    assert comparison.difference == NO_ERROR
