"""Strata: users who were assigned by other weights, combined by the users of all variants in each stratum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Analysis, Decision
from experiments.stats.strata import NOT_TOGETHER
from experiments.stats.types import (
    Design,
    Inputs,
    Measure,
    Quantile,
    ReasonCode,
    Stratum,
    Sums,
    VariantEstimate,
    Weight,
)
from tests.experiments.stats.sums import share, sums_of

ORDERS = Measure("orders", "mean")
SIGNUP = Measure("signup", "share")
VALUES = {  # by stratum and variant
    "quiet": {"control": [1.0, 2.0, 0.0, 4.0, 2.0, 1.0, 0.0, 3.0] * 9, "green": [2.0, 0.0, 3.0, 5.0] * 2},
    "busy": {"control": [5.0, 9.0, 2.0, 7.0] * 3, "green": [6.0, 8.0, 3.0, 4.0, 9.0] * 20},
}


def stratum(sums: Mapping[str, Sums | Quantile], *phases: int, **weights: float) -> Stratum:
    variants = [Weight(key, weights.get(key, 1)) for key in sums]
    return Stratum(variants, {key: of_variant.n for key, of_variant in sums.items()}, [sums], phases)


def analyse_strata(measure: Measure, *strata: Stratum, **changes: object) -> Analysis:
    users = {key: sum(part.users.get(key, 0) for part in strata) for key in strata[-1].users}
    design = Design(strata[-1].variants, "control", is_running=True, **changes)
    return analyse(Inputs(design, [measure], strata, users))


def variants_of(analysis: Analysis) -> dict[str, VariantEstimate]:
    return {variant.key: variant for variant in analysis.measures[0].variants}


def test_mean__of_two_strata__is_combined_with_the_weights_of_all_users():
    analysis = analyse_strata(
        ORDERS, *(stratum({key: sums_of(values) for key, values in part.items()}) for part in VALUES.values())
    )
    users = np.array([sum(map(len, part.values())) for part in VALUES.values()])
    weights = users / users.sum()
    means, errors, freedoms = {}, {}, {}
    for key in ("control", "green"):
        parts = [np.array(part[key]) for part in VALUES.values()]
        pieces = np.array([w**2 * part.var(ddof=1) / len(part) for w, part in zip(weights, parts, strict=True)])
        means[key] = sum(w * part.mean() for w, part in zip(weights, parts, strict=True))
        errors[key] = pieces.sum()
        freedoms[key] = errors[key] ** 2 / sum(p**2 / (len(part) - 1) for p, part in zip(pieces, parts, strict=True))
    found = variants_of(analysis)
    for key, variant in found.items():
        interval = scipy_stats.t.interval(0.95, freedoms[key], means[key], np.sqrt(errors[key]))
        assert variant.value == pytest.approx(means[key], rel=1e-9)
        assert (variant.interval.lower, variant.interval.upper) == pytest.approx(interval, rel=1e-9)
    difference = found["green"].comparison.difference
    error = np.sqrt(sum(errors.values()))
    freedom = sum(errors.values()) ** 2 / sum(errors[key] ** 2 / freedoms[key] for key in errors)
    assert difference.estimate == pytest.approx(means["green"] - means["control"], rel=1e-9)
    assert difference.standard_error == pytest.approx(error, rel=1e-9)
    p = 2 * scipy_stats.t.sf(abs(difference.estimate) / error, freedom)
    assert difference.fixed_horizon.p_value == pytest.approx(p, rel=1e-9)
    assert found["green"].comparison.lift.estimate == pytest.approx(means["green"] / means["control"] - 1, rel=1e-9)


def test_share__of_two_strata__has_a_normal_interval_and_no_simpsons_paradox():
    quiet = {"control": share(900, 9000), "green": share(100, 1000)}
    busy = {"control": share(300, 1000), "green": share(2700, 9000)}
    analysis = analyse_strata(SIGNUP, stratum(quiet, control=9, green=1), stratum(busy, control=1, green=9))
    found = variants_of(analysis)
    assert [variant.value for variant in found.values()] == pytest.approx([0.2, 0.2])
    error = np.sqrt(0.25 * (0.1 * 0.9 / 8999 + 0.3 * 0.7 / 999))
    interval = found["control"].interval
    assert (interval.lower, interval.upper) == pytest.approx(scipy_stats.norm.interval(0.95, 0.2, error), rel=1e-9)
    comparison = found["green"].comparison
    assert (comparison.label, comparison.difference.estimate) == ("unclear", pytest.approx(0, abs=1e-12))
    assert comparison.single_look.chance_to_beat == pytest.approx(0.5)
    assert not analysis.sample_ratio.is_mismatch


def test_strata__that_are_alike__are_as_one():
    part = {"control": sums_of([0.0, 1.0, 4.0] * 50), "green": sums_of([0.0, 2.0, 4.0] * 50)}
    twice = {key: Sums(*(2 * getattr(sums, name) for name in Sums.__slots__)) for key, sums in part.items()}
    for one, two in zip(
        variants_of(analyse_strata(ORDERS, stratum(twice))).values(),
        variants_of(analyse_strata(ORDERS, stratum(part), stratum(part))).values(),
        strict=True,
    ):
        assert two.value == pytest.approx(one.value)
        assert two.interval.lower == pytest.approx(one.interval.lower, rel=0.01)


def test_stratum__with_one_user_in_a_variant__is_left_out_and_reported():
    first = stratum({"control": share(40, 100), "green": share(1, 1)}, 1, 3, control=99, green=1)
    second = stratum({"control": share(500, 1000), "green": share(500, 1000)}, 2)
    analysis = analyse_strata(SIGNUP, first, second)
    found = variants_of(analysis)
    assert analysis.measures[0].left_out == {"green": [0]}
    assert (found["control"].value, found["control"].n) == (0.5, 1100)
    compared, alone = found["green"].comparison, variants_of(analyse_strata(SIGNUP, second))["green"].comparison
    assert compared.difference == alone.difference
    assert (compared.basis.strata, compared.basis.phases, compared.basis.users) == ((1,), [2], 1000)
    assert (compared.basis.control.n, compared.basis.control.value) == (1000, 0.5)
    warning = analysis.verdict.reasons[-1]
    assert warning.code == ReasonCode.STRATUM_LEFT_OUT
    assert warning.message == (
        "signup of green: 101 users of phases 1 and 3 left out, because control or green had fewer than 2 users then."
    )


def test_strata__all_with_too_few_users__have_no_values():
    parts = [
        stratum({"control": share(40, 100), "green": share(1, 1)}, 1, control=100),
        stratum({"control": share(1, 1), "green": share(5, 9)}, 2, green=9),
    ]
    analysis = analyse_strata(SIGNUP, *parts)
    found = variants_of(analysis)
    assert {variant.reason for variant in found.values()} == {NOT_TOGETHER}
    assert found["green"].comparison.difference == NOT_TOGETHER
    assert (found["green"].comparison.basis.strata, analysis.measures[0].left_out) == ((), {"green": [0, 1]})
    assert analysis.verdict.reasons[0].message == (
        "In no phase do both control and green have 2 users; a verdict needs 100 in each."
    )


def test_variant__that_gets_no_users_any_more__is_compared_where_it_had_some():
    first = stratum({"control": share(100, 1000), "green": share(150, 1000), "off": share(90, 1000)}, 1)
    second = stratum({"control": share(600, 2000), "green": share(700, 2000), "off": Sums()}, 2, off=0)
    analysis = analyse_strata(SIGNUP, first, second)
    found = variants_of(analysis)
    off = found["off"].comparison
    assert analysis.measures[0].left_out == {"green": [], "off": []}
    assert (off.difference.estimate, off.basis.phases) == (pytest.approx(-0.01), [1])
    assert (off.basis.control.n, off.basis.control.value) == (1000, 0.1)
    assert found["off"].value == off.basis.control.value + off.difference.estimate
    assert found["green"].value == pytest.approx(1 / 3 * 0.15 + 2 / 3 * 0.35)
    assert found["control"].value == pytest.approx(1 / 3 * 0.1 + 2 / 3 * 0.3)
    assert analysis.verdict.decision == Decision.SHIP


def test_verdict__variant_added_with_few_users_of_control_since__waits_for_them():
    """The control has users enough, but not in the phase in which the new variant is compared with it."""
    first = stratum({"control": share(500, 5000), "green": share(600, 5000), "new": Sums()}, 1, new=0)
    second = stratum({"control": share(9, 90), "green": share(9, 90), "new": share(200, 900)}, 2, new=10)
    verdict = analyse_strata(SIGNUP, first, second).verdict
    assert (verdict.decision, [reason.message for reason in verdict.reasons]) == (
        Decision.KEEP_RUNNING,
        ["control has 90 users in phase 2; a verdict needs 100 in every variant."],
    )


def test_guardrail__judged_over_the_phases_of_its_comparison__has_the_margin_of_the_control_there():
    guardrail = Measure("renewal", "share", is_guardrail=True)
    first = stratum({"control": share(500, 1000), "green": share(500, 1000), "new": Sums()}, 1, new=0)
    second = stratum({"control": share(100, 1000), "green": share(100, 1000), "new": share(100, 1000)}, 2)
    found = variants_of(analyse_strata(guardrail, first, second))
    assert found["new"].comparison.guardrail.margin.absolute == pytest.approx(0.01)
    assert found["green"].comparison.guardrail.margin.absolute == pytest.approx(0.1 * (0.5 + 0.1) / 2)
    assert found["control"].value == pytest.approx(0.3)


def test_strata__with_history__share_one_theta():
    random = np.random.default_rng(5)
    parts, y, x = [], [], []
    for shift, sizes in ((0.0, (400, 50)), (3.0, (60, 500))):
        of_part = {}
        for key, size in zip(("control", "green"), sizes, strict=True):
            before = random.gamma(2, 1, size) + shift
            after = 0.8 * before + random.normal(0, 0.3, size)
            of_part[key] = sums_of(after.tolist(), before.tolist())
            y.append(after - after.mean())
            x.append(before - before.mean())
        parts.append(stratum(of_part))
    theta = sum((a * b).sum() for a, b in zip(y, x, strict=True)) / sum((b * b).sum() for b in x)
    adjusted = variants_of(analyse_strata(ORDERS, *parts, is_adjusted=True))["green"]
    assert adjusted.comparison.cuped.theta == pytest.approx(theta, rel=1e-9)
    assert adjusted.comparison.difference.standard_error < adjusted.raw.comparison.difference.standard_error / 2
    assert abs(adjusted.comparison.difference.estimate) < 0.1


def test_quantile__of_two_strata__is_combined_like_a_mean():
    measure = replace(ORDERS, kind="quantile")
    parts = [
        stratum({"control": Quantile(100, 900, 2.0, 0.01), "green": Quantile(100, 900, 2.5, 0.04)}),
        stratum({"control": Quantile(300, 1900, 4.0, 0.02), "green": Quantile(100, 200, 5.0, 0.03)}),
    ]
    found = variants_of(analyse_strata(measure, *parts))
    w = np.array([200, 400]) / 600
    assert found["control"].value == pytest.approx(w @ [2.0, 4.0])
    difference = found["green"].comparison.difference
    assert difference.estimate == pytest.approx(w @ [0.5, 1.0])
    assert difference.standard_error == pytest.approx(np.sqrt(w**2 @ [0.05, 0.05]))


def test_quantile__of_one_stratum__has_the_errors_that_it_was_given():
    measure = replace(ORDERS, kind="quantile")
    sums = {"control": Quantile(400, 2900, 2.0, 0.01), "green": Quantile(500, 2900, 2.5, 0.0225)}
    found = variants_of(analyse_strata(measure, stratum(sums), is_adjusted=True))
    control, green = found["control"], found["green"]
    assert (control.value, control.raw) == (2.0, None)
    interval = scipy_stats.t.interval(0.95, 399, 2.0, 0.1)
    assert (control.interval.lower, control.interval.upper) == pytest.approx(interval)
    assert green.comparison.difference.standard_error == pytest.approx(np.sqrt(0.0325))
    assert green.comparison.cuped.code == ReasonCode.NOT_FOR_QUANTILES


def test_quantile__without_events__says_so():
    measure = replace(ORDERS, kind="quantile")
    found = variants_of(analyse_strata(measure, stratum({"control": Quantile(400), "green": Quantile(9, 3, 2.5, 0.1)})))
    assert found["control"].reason.code == ReasonCode.NO_EVENTS
    assert found["green"].comparison.difference.code == ReasonCode.NO_EVENTS
