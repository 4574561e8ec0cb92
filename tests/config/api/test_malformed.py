"""Whatever is wrong with a request: refused in the envelope, the field named, nothing stored."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.config.api.conftest import World
from tests.config.api.malformed import CASES
from tests.config.api.malformed.cases import Case
from tests.config.api.wire import failure, send


@pytest.mark.broad
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[:80])
def test_malformed_request__is_refused_with_its_field_and_stores_nothing(world: World, case: Case) -> None:
    before = world.stored()
    answer = send(case.method, case.target, case.body, case.headers, key=world.key)
    error = failure(answer)
    assert (answer.status, error["code"]) == (case.status, case.code), error
    if case.field is not None:
        assert error["details"][0]["field"] == case.field
    else:
        assert "details" not in error
    assert len(answer.body) < 64 * 1024
    assert world.stored() == before


def test_table__has_every_case_once_and_enough_of_them() -> None:
    names = Counter(case.name for case in CASES)
    assert len(CASES) >= 500
    assert [name for name, times in names.items() if times > 1] == []
