"""Whether the effect of a treatment differs between parts of the users, such as the values of an attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.special import chdtrc

from experiments.stats.types import Estimate, Reason, ReasonCode

MIN_PARTS = 2
ONE_PART = Reason(ReasonCode.TOO_FEW_USERS, "Fewer than two parts of the users have a difference to compare.")


def interaction(differences: Iterable[Estimate | Reason]) -> float | Reason:
    """Return the p-value of Cochran's Q over the differences of a treatment in several parts of the users.

    Parts without a difference are left out. The test is for a single look. Source: Cochran 1954, "The Combination of
    Estimates from Different Experiments", Biometrics 10:101.
    """
    pairs = [
        (part.estimate, part.standard_error)
        for part in differences
        if isinstance(part, Estimate) and part.standard_error
    ]
    if len(pairs) < MIN_PARTS:
        return ONE_PART
    # In units of the smallest error, so that neither large nor small values overflow.
    smallest = min(error for _, error in pairs)
    weights = [(smallest / error) * (smallest / error) for _, error in pairs]
    first = pairs[0][0]
    shifts = [(estimate - first) / smallest for estimate, _ in pairs]
    if not all(map(math.isfinite, shifts)):
        return 0.0
    mean = math.fsum(weight * shift for weight, shift in zip(weights, shifts, strict=True)) / math.fsum(weights)
    q = math.fsum(weight * (shift - mean) * (shift - mean) for weight, shift in zip(weights, shifts, strict=True))
    return float(chdtrc(len(pairs) - 1, q))
