"""The text of `/metrics`: the sums of what all processes have counted, as prometheus-client writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

import config.monitoring.metrics  # noqa: F401 (defines them)
from config.monitoring.counting import Gauge, Histogram, Metric, Reading, beat, metrics, read_all
from config.monitoring.memory import Name

_PROCESS = "process"
_ABOUT_PROCESSES = {
    "process_virtual_memory_bytes": "Virtual memory of the process.",
    "process_resident_memory_bytes": "Resident memory of the process.",
    "process_start_time_seconds": "When the process started, in seconds since 1970.",
    "process_cpu_seconds_total": "CPU time of the process, of the system and the user.",
    "process_open_fds": "Open files and connections of the process.",
    "process_max_fds": "The most files and connections that the process may open.",
}
"""What prometheus-client reads of each process from `/proc`, which only Linux has."""


def render(accept: str) -> tuple[bytes, str]:
    """Return all metrics and their content type, in the form that the value of an `Accept` header prefers."""
    beat()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Server())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def described() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return the kind, the meaning and the labels of every metric, by name."""
    own = {
        metric.name: (
            metric.kind.value,
            metric.meaning,
            (*metric.labels, _PROCESS) if isinstance(metric, Gauge) else metric.labels,
        )
        for metric in metrics.values()
    }
    for name, meaning in _ABOUT_PROCESSES.items():
        own[name] = ("counter" if name.endswith("_total") else "gauge", meaning, (_PROCESS,))
    return own


class _Server(Collector):
    """Everything that the processes of this server have counted, and what the system says of them."""

    def collect(self) -> Iterator[Family]:
        readings = read_all()
        of_metric = _by_metric(readings)
        for metric in metrics.values():
            yield _family_of(metric, of_metric[metric.name])
        yield from _of_system(readings)


_NumbersByLabels = dict[Name, list[tuple[Reading, Sequence[float]]]]
"""The numbers of processes by labels."""


def _by_metric(readings: Iterable[Reading]) -> dict[str, _NumbersByLabels]:
    counted: dict[str, _NumbersByLabels] = defaultdict(lambda: defaultdict(list))
    for reading in readings:
        for (name, *labels), numbers in reading.part.read():
            counted[name][tuple(labels)].append((reading, numbers))
    return counted


def _family_of(metric: Metric, counted: _NumbersByLabels) -> Family:
    if isinstance(metric, Gauge):
        gauges = GaugeMetricFamily(metric.name, metric.meaning, labels=(*metric.labels, _PROCESS))
        for labels, of_processes in counted.items():
            for reading, [value] in of_processes:
                if reading.is_alive:
                    gauges.add_metric((*labels, reading.process), value)
        return gauges
    sums = {
        labels: [sum(numbers) for numbers in zip(*(numbers for _, numbers in of_processes), strict=True)]
        for labels, of_processes in counted.items()
    }
    if isinstance(metric, Histogram):
        histograms = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        bounds = [*map(str, map(float, metric.bounds)), "+Inf"]
        for labels, (*counts, total) in sums.items():
            histograms.add_metric(labels, [*zip(bounds, accumulate(counts), strict=True)], total)
        return histograms
    counters = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, [total] in sums.items() if metric.labels or sums else [((), [0])]:
        counters.add_metric(labels, total)
    return counters


def _of_system(readings: Iterable[Reading]) -> Iterator[Family]:
    families: dict[str, Family] = {}
    for reading in readings:
        if not reading.pid:
            continue
        collector = ProcessCollector(pid=_returning(reading.pid), registry=None)
        for own in collector.collect():
            family = families.setdefault(own.name, Family(own.name, own.documentation, own.type))
            for sample in own.samples:
                family.documentation = _ABOUT_PROCESSES.get(sample.name, family.documentation)
                family.samples.append(Sample(sample.name, {_PROCESS: reading.process}, sample.value))
    yield from families.values()


def _returning(value: int) -> Any:
    return lambda: value
