"""Sums as the database makes them, from the values of single users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.stats.types import Design, Inputs, Measure, Sums, Weight


def sums_of(y: Sequence[float], x: Sequence[float] = (), d: Sequence[float] = ()) -> Sums:
    x, d = x or [0.0] * len(y), d or [0.0] * len(y)
    return Sums(
        n=len(y),
        positive=sum(value > 0 for value in y),
        y=float(sum(y)),
        yy=float(sum(value * value for value in y)),
        d=float(sum(d)),
        dd=float(sum(value * value for value in d)),
        yd=float(sum(a * b for a, b in zip(y, d, strict=True))),
        x=float(sum(x)),
        xx=float(sum(value * value for value in x)),
        xy=float(sum(a * b for a, b in zip(x, y, strict=True))),
    )


def share(positive: int, n: int) -> Sums:
    """A share of users who never did it before."""
    return Sums(n=n, positive=positive, y=positive, yy=positive)


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
    return Inputs(
        design(*(measured[0][1] if measured else ()), **changes),
        [measure for measure, _ in measured],
        [sums for _, sums in measured],
        counted if users is None else users,
        several,
    )
