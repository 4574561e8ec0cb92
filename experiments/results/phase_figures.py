"""The users of each phase of an experiment, beside those that its weights let expect. Reads no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.phases import numbers
from experiments.results.study import Study, users_of
from experiments.results.types import PhaseFigures, VariantUsers
from experiments.stats.types import Weight
from experiments.totals.sums import Totals


def phase_figures(study: Study, by_phase: Mapping[int, Totals]) -> list[PhaseFigures]:
    """Those of all phases, whether they are covered or not."""
    found = []
    for number in numbers(study.experiment.phases):
        users = users_of(by_phase.get(number, {}))
        figures = PhaseFigures(
            number,
            study.experiment.phases[number - 1],
            _beside_expected(study.variants_of(number), users),
            study.ratio_of(number, users),
            number in study.phases,
        )
        found.append(figures)
    return found


def users_of_variants(study: Study, phases: Sequence[PhaseFigures]) -> list[VariantUsers]:
    """The users of the covered phases together. Of each, its own weights say how many are expected."""
    covered = [{each.key: each for each in phase.variants} for phase in phases if phase.is_covered]
    return [
        VariantUsers(
            variant.key,
            variant.weight,
            sum(phase[variant.key].users for phase in covered),
            sum(phase[variant.key].expected for phase in covered),
        )
        for variant in study.variants
    ]


def _beside_expected(variants: Sequence[Weight], users: Mapping[str, int]) -> list[VariantUsers]:
    total = sum(users.values())
    # Divided first, so that no sum of weights leaves the range of floats.
    largest = max(variant.weight for variant in variants)
    shares = [variant.weight / largest for variant in variants]
    return [
        VariantUsers(variant.key, variant.weight, users.get(variant.key, 0), total * (share / sum(shares)))
        for variant, share in zip(variants, shares, strict=True)
    ]
