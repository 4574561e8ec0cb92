"""The statistics of an experiment, against gbstats, the engine of GrowthBook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from experiments.stats import sequential
from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Analysis
from experiments.stats.types import TUNING_SIZE, Design, Estimate, Inputs, Kind, Measure, Stratum, Sums, Weight
from tests.benchmarks.load import MissingTool
from tests.benchmarks.tables import print_bars

try:
    from gbstats.gbstats import process_single_metric
    from gbstats.models.settings import AnalysisSettingsForStatsEngine, MetricSettingsForStatsEngine
except ImportError as error:
    raise MissingTool("The benchmark of statistics needs gbstats, which `make bench` installs.") from error

ROUNDS, TIMES = 15, 5
LEAST_FACTOR = 30
MOST_MILLISECONDS = 16
VARIANTS = ("control", "blue", "red")
USERS = 20_000
MEASURES = [Measure(f"metric {at}", kind) for at, kind in enumerate(("share", "mean", "mean", "ratio", "share") * 2)]


def run() -> bool:
    print(f"Statistics: {len(MEASURES)} metrics x {len(VARIANTS)} variants; {ROUNDS} rounds of {TIMES}, in turns")
    sums = [draw(measure.kind, np.random.default_rng(at)) for at, measure in enumerate(MEASURES)]
    ours, theirs = halyard(sums), gbstats(sums)
    check_agreement(ours(), theirs())
    rounds = [(timed(theirs), timed(ours)) for _ in range(ROUNDS)]
    for name, times in zip(("gbstats, one analysis", "Halyard, all of them"), zip(*rounds, strict=True), strict=True):
        print(f"{name:30}{median(times):8.2f} ms{min(times):10.2f} - {max(times):.2f}")
    factor, milliseconds = median(their / our for their, our in rounds), median(our for _, our in rounds)
    bars = {
        f"at least {LEAST_FACTOR} times as fast as gbstats: {factor:.1f} times": factor >= LEAST_FACTOR,
        f"at most {MOST_MILLISECONDS} ms: {milliseconds:.1f} ms": milliseconds <= MOST_MILLISECONDS,
    }
    return print_bars(bars)


def timed(analyse_all: Callable[[], object]) -> float:
    """Return the CPU time of this process for one call, in milliseconds."""
    started = process_time()
    for _ in range(TIMES):
        analyse_all()
    return (process_time() - started) / TIMES * 1e3


def draw(kind: Kind, generator: np.random.Generator) -> Mapping[str, Sums]:
    """Return users of each variant, with a history that predicts a part of their behaviour."""
    return {key: draw_variant(kind, generator) for key in VARIANTS}


def draw_variant(kind: Kind, generator: np.random.Generator) -> Sums:
    x = generator.poisson(1.5, USERS).astype(float)
    y, d = generator.poisson(1 + x).astype(float), generator.poisson(4.0, USERS).astype(float)
    e = generator.poisson(4.0, USERS).astype(float)
    if kind == "share":
        x, y = np.minimum(x, 1), np.minimum(y, 1)
    products = (y, y * y, d, d * d, y * d, x, x * x, x * y, e, e * e, x * e, y * e, d * x, d * e)
    return Sums(USERS, int((y > 0).sum()), *(float(product.sum()) for product in products))


def halyard(sums: list[Mapping[str, Sums]]) -> Callable[[], Analysis]:
    """Everything: differences and lifts by two tests each, raw and with CUPED, Bayes, corrections,
    sample ratio and verdict.
    """
    design = Design([Weight(key, 1) for key in VARIANTS], VARIANTS[0], is_running=True, is_adjusted=True)
    users = dict.fromkeys(VARIANTS, USERS)
    inputs = Inputs(design, MEASURES, [Stratum(design.variants, users, sums)], users)
    return lambda: analyse(inputs)


def gbstats(sums: list[Mapping[str, Sums]]) -> Callable[[], list[Any]]:
    """The least that it can be asked for: the difference by the sequential test, and nothing beside it."""
    names, weights = list(VARIANTS), [1 / len(VARIANTS)] * len(VARIANTS)
    analysis = AnalysisSettingsForStatsEngine(
        var_names=names,
        var_ids=names,
        weights=weights,
        stats_engine="frequentist",
        sequential_testing_enabled=True,
        difference_type="absolute",
    )
    tasks = [
        ([row(key, sums) for key, sums in of_variant.items()], settings_of(measure))
        for measure, of_variant in zip(MEASURES, sums, strict=True)
    ]
    return lambda: [process_single_metric(rows, settings, [analysis]) for rows, settings in tasks]


def row(variant: str, sums: Sums) -> dict[str, Any]:
    return {
        "dimension": "",
        "variation": variant,
        "users": sums.n,
        "count": sums.n,
        "main_sum": sums.y,
        "main_sum_squares": sums.yy,
        "denominator_sum": sums.d,
        "denominator_sum_squares": sums.dd,
        "main_denominator_sum_product": sums.yd,
    }


def settings_of(measure: Measure) -> MetricSettingsForStatsEngine:
    return MetricSettingsForStatsEngine(
        id=measure.key,
        name=measure.key,
        statistic_type="ratio" if measure.kind == "ratio" else "mean",
        main_metric_type="binomial" if measure.kind == "share" else "count",
        denominator_metric_type="count",
    )


def check_agreement(analysis: Analysis, responses: list[Any]) -> None:
    """Check that both compute the same result: the raw difference, where no correction for others is due.

    The interval of gbstats is the one from the variance of each variant, where Halyard takes a larger one if need be.
    """
    for measure, ours, theirs in zip(MEASURES, analysis.measures, responses, strict=True):
        responded = theirs.analyses[0].dimensions[0].variations
        # Its variance of a share divides by n and not by n - 1.
        closely = 1e-4 if measure.kind == "share" else 1e-9
        for variant, response in zip(ours.variants[1:], responded[1:], strict=True):
            raw = variant.raw or variant
            difference = raw.comparison.difference if raw.comparison else None
            assert isinstance(difference, Estimate)
            if raw.comparison and raw.comparison.family is None:
                error = difference.standard_error or 0.0
                half = sequential.half_width(error, 2.0 * USERS, tuning_size=TUNING_SIZE, alpha=0.05)
                interval = (difference.estimate - half, difference.estimate + half)
                assert np.allclose(interval, response.ci, rtol=closely, atol=0)
