"""Strata are chosen for each pair of variants, against a plain computation from the values of single users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import MeasureAnalysis
from experiments.stats.types import Design, Estimate, Inputs, Interval, Measure, Stratum, VariantEstimate, Weight
from tests.experiments.stats.sums import sums_of

ORDERS = Measure("orders", "mean")
VARIANTS = ("control", "green", "new")
SETTINGS = settings(derandomize=True, deadline=None, max_examples=300)

Users = list[tuple[float, float]]
"""The value of each user, and what it was before the exposure."""
Phase = Mapping[str, Users]

a_user = st.tuples(st.integers(0, 9).map(float), st.integers(0, 5).map(float))
"""Whole numbers, so that sums are exact."""
some, none_or_one = st.lists(a_user, min_size=2, max_size=12), st.lists(a_user, max_size=1)


@st.composite
def phases(draw: st.DrawFn) -> list[Phase]:
    """Phases of any variants: each has many users, one or none, as where its weight is 0 and then no longer."""
    sizes = st.one_of(some, none_or_one, st.just([]))
    return [{key: draw(sizes) for key in VARIANTS} for _ in range(draw(st.integers(2, 5)))]


@st.composite
def phases_with_a_later_variant(draw: st.DrawFn) -> list[Phase]:
    """A first phase in which the first two variants can be compared, and later ones with a third variant."""
    earlier = [{"control": draw(some), "green": draw(some), "new": []}]
    return [*earlier, *draw(phases())]


def analysis_of(given_phases: Sequence[Phase], keys: Sequence[str] = VARIANTS, *, is_adjusted: bool) -> MeasureAnalysis:
    strata = []
    for number, phase in enumerate(given_phases, 1):
        values = {key: phase[key] for key in keys if phase[key]}
        sums = {key: sums_of([y for y, _ in users], [x for _, x in users]) for key, users in values.items()}
        weights = [Weight(key, len(phase[key]) + 1) for key in keys]
        strata.append(Stratum(weights, {key: len(users) for key, users in values.items()}, [sums], [number]))
    design = Design(strata[-1].variants, "control", is_running=True, is_adjusted=is_adjusted)
    users = {key: sum(len(phase[key]) for phase in given_phases) for key in keys}
    return analyse(Inputs(design, [ORDERS], strata, users)).measures[0]


@dataclass(frozen=True)
class Pair:
    """A treatment and the control by hand: their values, the squared errors, and the degrees of freedom of these."""

    phases: list[int]
    means: tuple[float, float]
    errors: tuple[float, float]
    freedom: tuple[float, float]
    shared: float


def by_hand(given_phases: Sequence[Phase], key: str, *, is_adjusted: bool) -> Pair | None:
    """Compare a treatment with the control over all phases in which both have two users; None without any."""

    def phases_of(treatment: str) -> list[int]:
        pairs = [(phase["control"], phase[treatment]) for phase in given_phases]
        return [number for number, pair in enumerate(pairs) if min(map(len, pair)) >= 2]

    numbers = phases_of(key)
    if not numbers:
        return None
    together = ["control", *(other for other in VARIANTS[1:] if phases_of(other) == numbers)]
    arms = [{one: np.array(given_phases[number][one]).reshape(-1, 2) for one in together} for number in numbers]
    sizes = np.array([sum(len(users) for users in arm.values()) for arm in arms])
    weights = sizes / sizes.sum()
    within = [users - users.mean(axis=0) for arm in arms for users in arm.values()]
    xy, xx = (sum((part[:, 1] * part[:, at]).sum() for part in within) for at in (0, 1))
    theta = xy / xx if is_adjusted else 0.0
    means, errors, freedom, shared = [], [], [], 0.0
    for weight, arm, size in zip(weights, arms, sizes, strict=True):
        spread = sum(((users[:, 1] - users[:, 1].mean()) ** 2).sum() for users in arm.values())
        shared += weight**2 * theta**2 * spread / (size - len(arm)) / size
    for one in (key, "control"):
        adjusted = [
            arm[one][:, 0] - theta * (arm[one][:, 1] - np.concatenate([*arm.values()])[:, 1].mean()) for arm in arms
        ]
        pieces = [w**2 * y.var(ddof=1) / len(y) for w, y in zip(weights, adjusted, strict=True)]
        means.append(sum(w * y.mean() for w, y in zip(weights, adjusted, strict=True)))
        errors.append(sum(pieces))
        of_pieces = sum(piece**2 / (len(y) - 1) for piece, y in zip(pieces, adjusted, strict=True))
        freedom.append(sum(pieces) ** 2 / of_pieces if of_pieces else math.inf)
    return Pair([number + 1 for number in numbers], tuple(means), tuple(errors), tuple(freedom), shared)


def interval_by_hand(pair: Pair, at: int) -> tuple[float, float]:
    lower, upper = scipy_stats.t.interval(
        0.95, pair.freedom[at], pair.means[at], math.sqrt(pair.errors[at] + pair.shared)
    )
    return float(lower), float(upper)


def is_close(expected: object) -> object:
    return pytest.approx(expected, rel=1e-6, abs=1e-9)


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.lower, interval.upper


def has_spread(given_phases: Sequence[Phase]) -> bool:
    """Return whether no rounding decides whether an adjusted value has a variance."""
    return all(
        len({y for y, _ in users}) > 1 and len({x for _, x in users}) > 1 and not is_on_a_line(users)
        for phase in given_phases
        for users in phase.values()
        if len(users) >= 2
    )


def is_on_a_line(users: Users) -> bool:
    return bool(np.linalg.matrix_rank(np.array(users) - users[0]) < 2)


@SETTINGS
@given(phases())
def test_phases__of_any_users__are_compared_and_reported_as_by_hand(given_phases: list[Phase]) -> None:
    raw = analysis_of(given_phases, is_adjusted=False)
    check_row_of_the_control(raw, given_phases)
    check_phases_left_out(raw, given_phases)
    assume(has_spread(given_phases))
    check_pairs(raw, given_phases, is_adjusted=False)
    check_pairs(analysis_of(given_phases, is_adjusted=True), given_phases, is_adjusted=True)


def check_pairs(found: MeasureAnalysis, given_phases: list[Phase], *, is_adjusted: bool) -> None:
    """Each treatment is compared with the control over the phases in which both have users."""
    variants = {variant.key: variant for variant in found.variants}
    for key in VARIANTS[1:]:
        variant, pair = variants[key], by_hand(given_phases, key, is_adjusted=is_adjusted)
        comparison = variant.comparison
        assert comparison is not None
        if pair is None:
            assert (variant.value, comparison.basis.phases, comparison.basis.control.value) == (None, [], None)
            continue
        control, difference, lift = comparison.basis.control, comparison.difference, comparison.lift
        assert isinstance(difference, Estimate)
        assert comparison.basis.phases == pair.phases
        assert comparison.basis.users == sum(len(given_phases[number - 1][key]) for number in pair.phases)
        assert control.n == sum(len(given_phases[number - 1]["control"]) for number in pair.phases)
        assert (variant.value, control.value) == (is_close(pair.means[0]), is_close(pair.means[1]))
        assert ends(variant.interval) == is_close(interval_by_hand(pair, 0))
        assert ends(control.interval) == is_close(interval_by_hand(pair, 1))
        assert difference.estimate == is_close(pair.means[0] - pair.means[1])
        assert difference.standard_error == is_close(math.sqrt(sum(pair.errors)))
        if isinstance(lift, Estimate):
            assert lift.estimate == is_close((pair.means[0] - pair.means[1]) / abs(pair.means[1]))


def check_row_of_the_control(found: MeasureAnalysis, given_phases: list[Phase]) -> None:
    """Its own row is that of the comparison with the most of its users."""
    control = next(variant for variant in found.variants if variant.comparison is None)
    beside = [variant.comparison.basis.control for variant in found.variants if variant.comparison]
    widest = max(beside, key=lambda estimate: estimate.n)
    assert (control.value, control.interval, control.reason) == (widest.value, widest.interval, widest.reason)
    assert control.n == sum(len(phase["control"]) for phase in given_phases)


def check_phases_left_out(found: MeasureAnalysis, given_phases: list[Phase]) -> None:
    """Phases in which both took part are reported unless they are compared. All weights of these phases are above 0, so
    that both variants take part in all of them.
    """
    for key in VARIANTS[1:]:
        pairs = [(len(phase["control"]), len(phase[key])) for phase in given_phases]
        expected = [number for number, pair in enumerate(pairs) if min(pair) < 2 and any(pair)]
        assert found.left_out[key] == expected


def uncorrected(variant: VariantEstimate) -> VariantEstimate:
    """Return the row without what is corrected for the number of treatments."""
    comparison = variant.comparison
    assert comparison is not None
    if not isinstance(comparison.difference, Estimate):
        return variant
    difference = replace(comparison.difference, always_valid=comparison.single_look.difference)
    lift = comparison.lift
    if isinstance(lift, Estimate):
        lift = replace(lift, always_valid=comparison.single_look.lift)
    return replace(variant, comparison=replace(comparison, difference=difference, lift=lift, label="", family=None))


@SETTINGS
@given(phases_with_a_later_variant())
@example([{"control": [(1.0, 0.0), (2.0, 1.0)], "green": [(4.0, 1.0), (3.0, 3.0)], "new": []}] * 2)
def test_pair__a_variant_is_added_later__keeps_its_figures(given_phases: list[Phase]) -> None:
    """Only the correction for the number of treatments may change."""
    for is_adjusted in (False, True):
        with_it = analysis_of(given_phases, is_adjusted=is_adjusted)
        without = analysis_of(given_phases, VARIANTS[:2], is_adjusted=is_adjusted)
        assert uncorrected(with_it.variants[1]) == uncorrected(without.variants[1])
        assert with_it.before["green"] == without.before["green"]
        assert with_it.left_out["green"] == without.left_out["green"]
        earliest = analysis_of(given_phases[:1], VARIANTS[:2], is_adjusted=is_adjusted).variants[1].comparison
        compared = with_it.variants[1].comparison
        assert earliest is not None
        assert compared is not None
        assert compared.basis.users >= earliest.basis.users
        assert compared.basis.phases[0] == 1


def test_left_out__phases_before_a_variant_got_users__are_not_reported() -> None:
    users = [(1.0, 0.0), (2.0, 1.0), (4.0, 1.0)]
    sums = sums_of([y for y, _ in users])
    weights = [Weight("control", 1), Weight("green", 0)], [Weight("control", 1), Weight("green", 1)]
    strata = [Stratum(weights[0], {"control": 3}, [{"control": sums}], [1])]
    strata.append(Stratum(weights[1], {"control": 3, "green": 3}, [{"control": sums, "green": sums}], [2]))
    design = Design(weights[1], "control", is_running=True)
    [found] = analyse(Inputs(design, [ORDERS], strata, {"control": 6, "green": 3})).measures
    comparison = found.variants[1].comparison
    assert comparison is not None
    assert (found.left_out, comparison.basis.phases) == ({"green": []}, [2])
