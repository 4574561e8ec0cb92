"""Patterns: compiled once a process, and only if they are searched for."""

from __future__ import annotations

from typing import Any

import pytest
import re2

from flags.engine import operands


def test_pattern__of_the_same_text__is_shared_and_freed_with_its_last_condition() -> None:
    first, again = operands.shared_pattern("a+b", True), operands.shared_pattern("a+b", True)
    assert first is again
    assert operands.shared_pattern("a+b", False) is not first
    assert (first.is_in("xAAB"), first.is_in("b")) == (True, False)
    key = ("c+d", False)
    alone = operands.shared_pattern(*key)
    assert key in operands._patterns
    del alone
    assert key not in operands._patterns


def test_pattern__never_searched_for__is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_pattern(text: str, _: bool) -> Any:
        compiled.append(text)
        return re2.compile(text)

    monkeypatch.setattr(operands, "compile_pattern", compile_pattern)
    pattern = operands.shared_pattern("never-compiled-before", False)
    assert compiled == []
    assert [pattern.is_in("x"), pattern.is_in("never-compiled-before")] == [False, True]
    assert compiled == ["never-compiled-before"]
