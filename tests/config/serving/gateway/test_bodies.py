"""Bodies: how many are read at the same time, and what becomes of those that are late or end early."""

from __future__ import annotations

import io
from typing import Any

import pytest

from config.serving.gateway import bodies
from config.serving.gateway.bodies import Body, BodyCutOff, Discarder, Readers, TooManyBodies, Withheld
from config.serving.gateway.exchange import Exchange
from tests.config.serving.gateway.granian import Protocol, Slow
from tests.threads import SECONDS, Threads


class Running:
    value = 0


def exchange(**environ: str) -> Exchange:
    return Exchange(Protocol(), environ, Running())


def body_of(raw: Any, readers: Readers, length: int | None, begun: float = 0) -> Body:
    announced = {} if length is None else {"CONTENT_LENGTH": str(length)}
    return Body(exchange(**announced), raw, readers, begun)


def test_read__whole_body__returns_it_and_frees_the_place() -> None:
    readers = Readers(1, SECONDS)
    for _ in range(3):
        assert body_of(io.BytesIO(b"12345"), readers, 5).read(5) == b"12345"


def test_read__announced_body_ends_early__is_cut_off() -> None:
    with pytest.raises(BodyCutOff):
        body_of(io.BytesIO(b"123"), Readers(1, SECONDS), 5).read(5)


def test_read__body_in_chunks__may_be_shorter() -> None:
    assert body_of(io.BytesIO(b"123"), Readers(1, SECONDS), None).read(5) == b"123"


def test_read__all_places_are_taken__is_refused_also_while_a_late_body_is_cut() -> None:
    readers, threads, slow = Readers(1, SECONDS), Threads(), Slow()
    reading = threads.start(body_of(slow, readers, 2).read, 2)
    assert slow.is_read.wait(SECONDS)
    for _ in range(2):
        with pytest.raises(TooManyBodies):
            body_of(io.BytesIO(b"1"), readers, 1).read(1)
        readers.cut_late(SECONDS + 1)
    slow.finish(b"12")
    assert isinstance(reading.exception(SECONDS), BodyCutOff)
    assert body_of(io.BytesIO(b"1"), readers, 1).read(1) == b"1"
    threads.join()


def test_cut_late__bodies_since_different_moments__takes_the_late_ones() -> None:
    readers, threads, slow = Readers(10, 10.0), Threads(), [Slow(), Slow()]
    early, late = (body_of(raw, readers, 1, begun) for raw, begun in zip(slow, (100.0, 105.0), strict=True))
    reading = [threads.start(body.read, 1) for body in (early, late)]
    assert all(raw.is_read.wait(SECONDS) for raw in slow)
    assert readers.cut_late(110.0) == []
    assert readers.cut_late(111.0) == [early]
    assert [readers.is_held_up_by(body) for body in (early, late)] == [True, False]
    for raw in slow:
        raw.finish(b"1")
    assert isinstance(reading[0].exception(SECONDS), BodyCutOff)
    assert reading[1].result(SECONDS) == b"1"
    assert not readers.is_held_up_by(early)
    threads.join()


def test_cut_late__most_places_are_taken__bodies_have_less_time() -> None:
    readers, threads, slow = Readers(3, 10.0), Threads(), [Slow(), Slow()]
    held_up = [body_of(raw, readers, 1, begun=100.0) for raw in slow]
    reading = [threads.start(body.read, 1) for body in held_up]
    assert all(raw.is_read.wait(SECONDS) for raw in slow)
    assert readers.cut_late(100.5) == []
    assert readers.cut_late(101.5) == held_up
    for raw, read in zip(slow, reading, strict=True):
        raw.finish()
        assert isinstance(read.exception(SECONDS), BodyCutOff)
    threads.join()


def with_key(raw: Any, readers: Readers, **key: str) -> Body:
    return Body(exchange(CONTENT_LENGTH="1", **key), raw, readers, 0)


A, B = {"HTTP_AUTHORIZATION": "Bearer a"}, {"HTTP_X_API_KEY": "b"}
ALSO_A = [{"HTTP_X_API_KEY": "a"}, {"HTTP_AUTHORIZATION": "bearer  a "}]


def test_read__all_places_of_a_key_are_taken__leaves_the_others_to_other_keys() -> None:
    readers, threads, slow = Readers(4, SECONDS, most_of_one=2), Threads(), [Slow(), Slow(), Slow()]
    keys = (A, B, A)
    reading = [threads.start(with_key(raw, readers, **key).read, 1) for raw, key in zip(slow, keys, strict=True)]
    assert all(raw.is_read.wait(SECONDS) for raw in slow)
    for _ in range(2):  # also while they are cut
        for key in (A, *ALSO_A):
            with pytest.raises(TooManyBodies):
                with_key(io.BytesIO(b"1"), readers, **key).read(1)
        assert with_key(io.BytesIO(b"1"), readers, **B).read(1) == b"1"
        readers.cut_late(SECONDS + 1)
    for raw in slow:
        raw.finish(b"1")
    assert all(isinstance(read.exception(SECONDS), BodyCutOff) for read in reading)
    assert with_key(io.BytesIO(b"1"), readers, **A).read(1) == b"1"
    threads.join()


def test_discard__all_places_of_a_key_are_taken__leaves_the_others_to_other_keys() -> None:
    discarder, threads, slow = Discarder(2, most_of_one=1), Threads(), Slow()
    first = threads.start(discarder.discard, exchange(**A), slow)
    assert slow.is_read.wait(SECONDS)
    assert not discarder.discard(exchange(**A), io.BytesIO(b"rest"))
    assert discarder.discard(exchange(**B), io.BytesIO(b"rest"))
    slow.finish()
    first.result(SECONDS)
    assert discarder.discard(exchange(**A), io.BytesIO(b"rest"))
    threads.join()


@pytest.mark.parametrize("method", ["read", "readline"])
def test_withheld__body__is_never_read(method: str) -> None:
    with pytest.raises(BodyCutOff):
        getattr(Withheld(), method)(10)


def test_discard__long_body__is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_DISCARDED", 2**17)
    raw = io.BytesIO(bytes(2**18))
    assert not Discarder(1).discard(exchange(), raw)
    assert raw.tell() == 2**17


def test_discard__all_places_are_taken__reads_nothing() -> None:
    discarder, threads, slow = Discarder(1), Threads(), Slow()
    first = threads.start(discarder.discard, exchange(), slow)
    assert slow.is_read.wait(SECONDS)
    raw = io.BytesIO(b"rest")
    assert not discarder.discard(exchange(), raw)
    assert raw.tell() == 0
    slow.finish()
    first.result(SECONDS)
    assert discarder.discard(exchange(), raw)
    assert raw.tell() == 4
    threads.join()


def test_discard__time_is_over__stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS_TO_DISCARD", -1.0)
    raw = io.BytesIO(b"rest")
    assert not Discarder(1).discard(exchange(), raw)
    assert raw.tell() == 0
