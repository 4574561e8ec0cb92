"""Buckets, shares and splits: against published values, against a second implementation, and as distributions."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from flags.engine.bucketing import BUCKETS, bucket, compile_share, compile_split, split_bounds, threshold
from tests.flags.engine.reference import load_vectors, murmur3_x86_32, reference_bucket, reference_variant

FIXED = settings(derandomize=True, deadline=None, max_examples=300)

WEIGHTS = st.lists(
    st.one_of(
        st.integers(0, 2**63),
        st.floats(0, 1e300),
        st.sampled_from([0, 0.0, 0.1, 0.2, 0.7, 1, 33.333, 1e-300, 5e-324, 1e300]),
    ),
    min_size=1,
    max_size=8,
).filter(any)


@cache
def users() -> list[str]:
    return [f"user-{number}" for number in range(100_000)]


def test_murmur3__published_value__is_met_by_both_implementations() -> None:
    for text, seed, expected in [
        ("", 0, 0x00000000),
        ("", 1, 0x514E28B7),
        ("", 0xFFFFFFFF, 0x81F16F39),
        ("test", 0, 0xBA6BD213),
        ("test", 0x9747B28C, 0x704B81DC),
        ("Hello, world!", 0, 0xC0363E43),
        ("Hello, world!", 0x9747B28C, 0x24884CBA),
        ("The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
        ("The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ]:
        assert murmur3_x86_32(text.encode(), seed) == expected, (text, seed)
        assert mmh3.hash(text, seed, False) == expected, (text, seed)


@FIXED
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_murmur3__any_text__is_the_same_in_both_implementations(text: str) -> None:
    assert mmh3.hash(text, 0, False) == murmur3_x86_32(text.encode())


def test_bucket__published_vectors__agree_with_engine_and_reference() -> None:
    vectors = load_vectors("buckets")
    assert len(vectors) == 200
    for vector in vectors:
        salt, user_id = vector["salt"], vector["userId"]
        assert bucket(salt, user_id) == vector["bucket"] == reference_bucket(salt, user_id), vector


def test_bucket__published_vectors__cover_the_awkward_user_ids() -> None:
    vectors = load_vectors("buckets")
    user_ids = [vector["userId"] for vector in vectors]
    assert "" in user_ids
    assert any(len(user_id) == 200 for user_id in user_ids)
    assert any("." in user_id for user_id in user_ids)
    assert any(ord(character) > 0xFFFF for user_id in user_ids for character in user_id)
    # Every length of the tail that the hash treats differently.
    assert {len(f"{vector['salt']}:{vector['userId']}".encode()) % 4 for vector in vectors} == {0, 1, 2, 3}


def test_bucket__hundred_thousand_users__are_spread_evenly() -> None:
    for salt in ["new-checkout", "checkout.v2", "a", "new-checkout:variant"]:
        buckets = [bucket(salt, user_id) for user_id in users()]
        assert min(buckets) >= 0, salt
        assert max(buckets) < BUCKETS, salt
        bins = Counter(number // 1_000 for number in buckets)
        observed = [bins[number] for number in range(100)]
        assert stats.chisquare(observed).statistic < stats.chi2.ppf(0.999, df=99), salt


def test_bucket__two_salts__put_users_into_unrelated_buckets() -> None:
    table = [[0] * 10 for _ in range(10)]
    for user_id in users():
        table[bucket("new-checkout", user_id) // 10_000][bucket("dark-mode", user_id) // 10_000] += 1
    assert stats.chi2_contingency(table).pvalue > 0.001


def test_threshold__percentage__is_exact() -> None:
    for percentage, expected in [
        (0, 0), (-0.0, 0), (0.001, 1), (0.1, 100), (0.29, 290), (1.005, 1_005), (33.333, 33_333), (57.3, 57_300),
        (50, 50_000), (99.999, 99_999), (100, 100_000), (100.0, 100_000), (Decimal("12.345"), 12_345),
        (Decimal("12.3450"), 12_345),
    ]:  # fmt: skip
        assert threshold(percentage) == expected, percentage


def test_threshold__every_step__is_its_number_of_buckets() -> None:
    assert [threshold(step / 1_000) for step in range(BUCKETS + 1)] == list(range(BUCKETS + 1))


def test_threshold__out_of_range_or_between_steps__is_refused(subtests: pytest.Subtests) -> None:
    for percentage in [
        -0.001, 100.001, 101, 0.0001, 0.1 + 0.2, 1e-300, 1e300, 10**400, math.nan, math.inf, Decimal("NaN"),
    ]:  # fmt: skip
        with subtests.test(percentage=percentage), pytest.raises(ValueError):  # noqa: PT011 - only the type is promised
            threshold(percentage)


def test_share__published_vectors__end_exactly_at_the_bucket() -> None:
    vectors = load_vectors("buckets")
    for vector in vectors:
        user, number = SimpleNamespace(user_id=vector["userId"]), vector["bucket"]
        assert not compile_share(vector["salt"], number)(user)
        assert compile_share(vector["salt"], number + 1)(user)
        assert not compile_share(vector["salt"], 0)(user)
        assert compile_share(vector["salt"], BUCKETS)(user)


@FIXED
@given(st.integers(0, 2**32 - 1), st.integers(0, BUCKETS))
def test_share__any_hash__is_in_by_its_bucket(hashed: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flags.engine.bucketing.murmur3", lambda *_: hashed)
        user = SimpleNamespace(user_id="u")
        assert compile_share("salt", limit)(user) == (bucket("salt", "u") < limit)


def test_share__raised_percentage__keeps_everyone_who_was_in() -> None:
    buckets = {user_id: bucket("new-checkout", user_id) for user_id in users()[:20_000]}
    shares = [
        {user_id for user_id, at in buckets.items() if at < limit}
        for limit in map(threshold, (0, 0.1, 1, 12.5, 50, 99.9, 100))
    ]
    assert all(smaller < larger for smaller, larger in pairwise(shares))
    assert len(shares[0]) == 0
    assert len(shares[-1]) == 20_000


def test_split_bounds__weights__are_exact() -> None:
    for weights, expected in [
        ([1], (100_000,)),
        ([50, 50], (50_000, 100_000)),
        ([0.1, 0.2, 0.7], (10_000, 30_000, 100_000)),
        ([0.1] * 10, tuple(range(10_000, 100_001, 10_000))),
        ([1, 1, 1], (33_334, 66_667, 100_000)),
        ([0, 1, 0, 3, 0], (0, 25_000, 25_000, 100_000, 100_000)),
        ([1e-300, 1], (1, 100_000)),
        ([1, 1e-300], (100_000, 100_000)),
        ([1e300, 1e-300], (100_000, 100_000)),
        ([1e-300, 3e-300], (25_000, 100_000)),
        ([1e300, 3e300], (25_000, 100_000)),
        ([5e-324, 5e-324], (50_000, 100_000)),
        ([2**63, 2**63 - 1], (50_001, 100_000)),
        ([2**63 - 1, 2**63], (50_000, 100_000)),
        ([Decimal("0.1"), 0.3], (25_000, 100_000)),
    ]:
        assert split_bounds(weights) == expected, weights


@FIXED
@given(WEIGHTS)
def test_split_bounds__any_weights__decide_every_edge_as_published(weights: list[float]) -> None:
    bounds = split_bounds(weights)
    named = [(str(index), weight) for index, weight in enumerate(weights)]
    for at in {edge + step for edge in bounds for step in (-1, 0)} & set(range(BUCKETS)):
        chosen = next(index for index, bound in enumerate(bounds) if at < bound)
        assert str(chosen) == reference_variant(named, at)


@FIXED
@given(WEIGHTS)
def test_split_bounds__any_weights__leave_nobody_out_and_nobody_to_a_zero(weights: list[float]) -> None:
    bounds = (0, *split_bounds(weights))
    assert bounds[-1] == BUCKETS
    assert list(bounds) == sorted(bounds)
    assert all(end == start for (start, end), weight in zip(pairwise(bounds), weights, strict=True) if weight == 0)


def test_split_bounds__weights_without_a_split__are_refused(subtests: pytest.Subtests) -> None:
    for weights in [[], [0], [0, 0.0], [-1, 2], [1, -1], [2, -1], [math.nan, 1], [math.inf, 1], [1, -math.inf]]:
        with subtests.test(weights=weights), pytest.raises(ValueError):  # noqa: PT011 - only the type is promised
            split_bounds(weights)


def test_compile_split__published_vectors__agree_with_engine_and_reference() -> None:
    vectors = load_vectors("splits")
    assert len(vectors) == 50
    for vector in vectors:
        salt, user_id = vector["salt"], vector["userId"]
        weights = [(entry["key"], entry["weight"]) for entry in vector["weights"]]
        at = reference_bucket(f"{salt}:variant", user_id)
        assert compile_split(weights, salt)(user_id) == vector["variant"] == reference_variant(weights, at), vector


def test_compile_split__pairs_from_an_iterator__are_read_once() -> None:
    choose = compile_split(iter([("control", 0), ("treatment", 1)]), "new-checkout")
    assert {choose(user_id) for user_id in users()[:100]} == {"treatment"}


def test_compile_split__hundred_thousand_users__get_the_weights_promised() -> None:
    choose = compile_split([("a", 0.1), ("never", 0), ("b", 0.2), ("c", 0.7)], "new-checkout")
    counts = Counter(choose(user_id) for user_id in users())
    assert counts.keys() == {"a", "b", "c"}
    observed = [counts["a"], counts["b"], counts["c"]]
    assert stats.chisquare(observed, [10_000, 20_000, 70_000]).statistic < stats.chi2.ppf(0.999, df=2)


def test_compile_split__users_in_and_out_of_the_rollout__are_split_alike() -> None:
    for key in ["new-checkout", "dark-mode", "search.ranking-v3"]:
        choose, half = compile_split([("control", 1), ("a", 1), ("b", 2)], key), threshold(50)
        counts = Counter((bucket(key, user_id) < half, choose(user_id)) for user_id in users())
        table = [[counts[inside, variant] for variant in ("control", "a", "b")] for inside in (True, False)]
        assert stats.chi2_contingency(table).pvalue > 0.001, key
