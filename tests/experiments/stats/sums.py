"""Sums as the database makes them, from the values of single users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.stats import effects
from experiments.stats.effects import Contrast
from experiments.stats.samples import Sample
from experiments.stats.strata import Arms, ArmsOfStratum
from experiments.stats.types import Design, Estimate, Inputs, Measure, Quantile, Reason, Stratum, Sums, Weight


def sums_of(y: Sequence[float], x: Sequence[float] = (), d: Sequence[float] = (), e: Sequence[float] = ()) -> Sums:
    x, d, e = x or [0.0] * len(y), d or [0.0] * len(y), e or [0.0] * len(y)

    def products(first: Sequence[float], second: Sequence[float]) -> float:
        return float(sum(a * b for a, b in zip(first, second, strict=True)))

    return Sums(
        n=len(y),
        nonzero=sum(bool(value or of_d) for value, of_d in zip(y, d, strict=True)),
        y=float(sum(y)),
        yy=products(y, y),
        d=float(sum(d)),
        dd=products(d, d),
        yd=products(y, d),
        x=float(sum(x)),
        xx=products(x, x),
        xy=products(x, y),
        e=float(sum(e)),
        ee=products(e, e),
        xe=products(x, e),
        ye=products(y, e),
        dx=products(d, x),
        de=products(d, e),
    )


def share(positive: int, n: int) -> Sums:
    """A share of users who never did it before."""
    return Sums(n=n, nonzero=positive, y=positive, yy=positive)


def design(*keys: str, **changes: object) -> Design:
    """Variants of equal weight, the first of them the control."""
    keys = keys or ("control", "treatment")
    return Design(**{"variants": [Weight(key, 1) for key in keys], "control": keys[0], "is_running": True, **changes})


def inputs(
    *measured: tuple[Measure, Mapping[str, Sums]],
    several: int = 0,
    users: Mapping[str, int] | None = None,
    **changes: object,
) -> Inputs:
    """Measures with their sums by variant; the users exposed are those of the first measure."""
    counted = {key: sums.n for key, sums in measured[0][1].items()} if measured else {}
    exposed = counted if users is None else users
    of_design = design(*(measured[0][1] if measured else ()), **changes)
    return inputs_of(of_design, [measure for measure, _ in measured], [sums for _, sums in measured], exposed, several)


def inputs_of(
    design: Design,
    measures: Sequence[Measure],
    sums: Sequence[Mapping[str, Sums | Quantile]],
    users: Mapping[str, int],
    several: int = 0,
) -> Inputs:
    """Users who were all assigned by the weights of the design."""
    return Inputs(design, measures, [Stratum(design.variants, users, sums)], users, several)


def contrast(
    treatment: Sample, control: Sample, design: Design, shared: float = 0.0, *, is_non_negative: bool = False
) -> Contrast | Reason:
    """The comparison of two samples of one stratum."""
    arms = Arms.combined([ArmsOfStratum(1.0, {"treatment": treatment, "control": control}, shared)])
    pair = arms.pair("treatment", "control", is_non_negative=is_non_negative)
    return pair if isinstance(pair, Reason) else effects.contrast(pair, treatment, control, design, shared)


def estimated(
    treatment: Sample, control: Sample, design: Design, *, is_non_negative: bool = False
) -> tuple[Estimate | Reason, Estimate | Reason]:
    """The difference and the lift of two samples, at the design's level."""
    compared = contrast(treatment, control, design, is_non_negative=is_non_negative)
    if isinstance(compared, Reason):
        return compared, compared
    levels = effects.uncorrected(compared, design)
    difference = effects.difference(compared, levels)
    if isinstance(difference, Reason):
        return difference, difference
    return difference, effects.lift(compared, levels, difference, is_non_negative=is_non_negative)


def difference(treatment: Sample, control: Sample, design: Design) -> Estimate | Reason:
    return estimated(treatment, control, design)[0]


def lift(treatment: Sample, control: Sample, design: Design, **options: bool) -> Estimate | Reason:
    return estimated(treatment, control, design, **options)[1]


def sample(n: int, mean: float, variance: float) -> Sample:
    return Sample(n, mean, variance, n - 1)
