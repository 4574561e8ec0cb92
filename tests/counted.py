"""What the metrics of this process have counted, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from config.monitoring import counting

Counted = Counter[tuple[str, ...]]


def counted() -> Counted:
    """Return the numbers by the name of the metric and the values of its labels. For histograms, they count values."""
    counting.beat()
    found: Counted = Counter()
    for name, numbers in counting.process.part.read():
        found[name] = sum(numbers[:-1]) if len(numbers) > 1 else numbers[0]
    return found


@contextmanager
def counting_anew() -> Iterator[Counted]:
    """Yield what is counted in this block, which is there once the block has ended."""
    before, new = counted(), Counted()
    yield new
    for name, number in counted().items():
        if number != before[name]:
            new[name] = number - before[name]


def of(counts: Counted, metric: str) -> dict[tuple[str, ...], float]:
    """Return the numbers of one metric of the service by the values of its labels."""
    return {tuple(labels): number for (name, *labels), number in counts.items() if name == f"halyard_{metric}"}
