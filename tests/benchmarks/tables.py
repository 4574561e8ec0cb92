"""The tables that benchmarks print: a row for each subject, and which targets are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tests.benchmarks.load import Sample


def print_samples(names: Sequence[str], rounds: Sequence[tuple[Sample, ...]]) -> None:
    """Print the medians of each subject over all rounds."""
    width = max(12, *(len(name) + 2 for name in names))
    print(f"{'':{width}}{'requests/s':>12}{'min - max':>20}{'CPU µs/request':>16}{'p50 ms':>9}{'p99 ms':>9}")
    for name, samples in zip(names, zip(*rounds, strict=True), strict=True):
        rates = [sample.requests_a_second for sample in samples]
        cpu = median(sample.microseconds_a_request for sample in samples)
        p50, p99 = (median(getattr(sample, f"milliseconds_{at}") for sample in samples) for at in (50, 99))
        span = f"{min(rates):,.0f} - {max(rates):,.0f}"
        print(f"{name:{width}}{median(rates):12,.0f}{span:>20}{cpu:16.0f}{p50:9.2f}{p99:9.2f}")


def print_bars(bars: Mapping[str, bool]) -> bool:
    """Print the targets, and return whether all of them are met."""
    for bar, holds in bars.items():
        print(f"{'holds' if holds else 'FAILS'}: {bar}")
    return all(bars.values())
