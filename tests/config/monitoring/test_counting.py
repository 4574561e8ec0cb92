"""Numbers that processes share: each counts in a part of its own, and its successor goes on there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from config.monitoring import counting, memory, metrics
from config.monitoring.counting import Batch
from config.monitoring.exposition import described, render
from config.monitoring.memory import BEAT, Part, SharedMemory
from tests.counted import counting_anew

WORKERS = ("worker-1", "worker-2")
EVENTS, ACCEPTED = "halyard_events_total", (("status", "accepted"),)
Shown = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def shared() -> Iterator[SharedMemory]:
    """Memory of two workers. Afterwards, this process counts where it did before."""
    before = counting.process
    counting.process = counting._Process()
    counting.process.measuring = before.measuring
    yield SharedMemory(WORKERS)
    counting.process = before
    for metric in counting.metrics.values():
        metric.forget_places()


def shown() -> Shown:
    """Return what `/metrics` shows, by name and labels."""
    text = render("")[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def count_in_child(shared: SharedMemory, name: str, amount: int) -> None:
    counting.join(shared, name)
    metrics.events.add(amount, "accepted")
    metrics.streams.set(amount)


def in_child(shared: SharedMemory, name: str, amount: int) -> None:
    child = multiprocessing.get_context("spawn").Process(target=count_in_child, args=(shared, name, amount))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_counter__of_several_processes_and_a_successor__is_the_sum_of_all(shared: SharedMemory) -> None:
    counting.join(shared, "worker-1")
    metrics.events.add(1, "accepted")
    assert shown()[EVENTS, ACCEPTED] == 1
    in_child(shared, "worker-2", 10)
    assert shown()[EVENTS, ACCEPTED] == 11
    in_child(shared, "worker-2", 100)  # the process before has ended
    metrics.events.add(1, "accepted")
    assert shown()[EVENTS, ACCEPTED] == 112


def test_gauge__of_each_process__stands_alone_until_the_process_falls_silent(shared: SharedMemory) -> None:
    counting.join(shared, "worker-1")
    metrics.streams.set(3)
    in_child(shared, "worker-2", 5)
    name = "halyard_streams_open"
    assert {shown()[name, (("process", process),)] for process in WORKERS} == {3, 5}
    shared.part_of("worker-2").numbers[BEAT] -= 11
    assert (name, (("process", "worker-1"),)) in shown()
    assert (name, (("process", "worker-2"),)) not in shown()


def test_histogram__values_on_and_between_bounds__are_counted_up_to_each(shared: SharedMemory) -> None:
    counting.join(shared, "worker-1")
    metrics.request_seconds.observe([0.001, 0.0011, 99], "evaluate_flag")
    metrics.request_seconds.observe([0.0001], "evaluate_flag")
    name, labels = "halyard_request_duration_seconds", ("operation", "evaluate_flag")
    buckets = {dict(labels)["le"]: value for (sample, labels), value in shown().items() if sample == f"{name}_bucket"}
    assert [buckets[bound] for bound in ("0.0005", "0.001", "0.0025", "10.0", "+Inf")] == [1, 2, 3, 3, 4]
    assert shown()[f"{name}_count", (labels,)] == 4
    assert shown()[f"{name}_sum", (labels,)] == pytest.approx(99.0022)


def test_counter__without_labels__is_shown_before_anything_is_counted(shared: SharedMemory) -> None:
    counting.join(shared, "worker-1")
    assert shown()["halyard_exposures_postponed_total", ()] == 0


def test_batch__numbers_that_wait__are_counted_once_at_the_next_beat() -> None:
    seen: list[list[float]] = []
    batch = Batch(lambda numbers: seen.append(list(numbers)))
    for number in (1, 2, 3):
        batch.add(number)
    assert seen == []
    counting.beat()
    counting.beat()
    assert seen == [[1, 2, 3]]


def test_part__full__leaves_out_new_names_and_counts_on_under_known_ones(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    counting.join(shared, "worker-1")
    metrics.events.add(1, "accepted")
    counting.process.part._next = memory._PLACES
    metrics.events.add(1, "duplicate")
    metrics.events.add(1, "rejected")
    metrics.events.add(1, "accepted")
    assert shown()[EVENTS, ACCEPTED] == 2
    assert [name for name, labels in shown() if name == EVENTS] == [EVENTS]
    assert [record.getMessage() for record in caplog.records] == [
        "There is no more room for metrics; some are not counted any more"
    ]


def test_part__of_another_process__reads_names_in_any_script() -> None:
    part = Part.of_this_process_alone()
    place = part.place_of(("metric", "naïve\n“label”"), 2)
    assert place is not None
    part.numbers[place + 1] = 7.5
    assert [*part.read()] == [(("metric", "naïve\n“label”"), [0.0, 7.5])]


def test_render__openmetrics_asked_for__is_in_that_form() -> None:
    content, content_type = render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert content.endswith(b"# EOF\n")


def test_described__metrics__are_those_that_are_shown() -> None:
    names = {family.name for family in text_string_to_metric_families(render("")[0].decode())}
    assert names == {name.removesuffix("_total") for name in described()}


def test_counting_anew__in_tests__has_the_difference() -> None:
    metrics.events.add(1, "accepted")
    with counting_anew() as counts:
        metrics.events.add(2, "accepted")
    assert counts == {(EVENTS, "accepted"): 2}
