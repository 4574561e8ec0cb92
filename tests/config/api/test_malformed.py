"""Whatever is wrong with a request: refused in the envelope, the field named, nothing stored."""

from __future__ import annotations

import pytest

from tests.config.api.conftest import World
from tests.config.api.malformed import cases
from tests.config.api.wire import failure, send

pytestmark = pytest.mark.once


def test_malformed_requests__each__is_refused_with_its_field_and_stores_nothing(
    subtests: pytest.Subtests, world: World
) -> None:
    names = set()
    before = world.stored()
    for case in cases():
        assert case.name not in names
        names.add(case.name)
        with subtests.test(case=case.name):
            answer = send(case.method, case.target, case.body, case.headers, key=world.key)
            error = failure(answer)
            assert (answer.status, error["code"]) == (case.status, case.code), error
            if case.field is not None:
                assert error["details"][0]["field"] == case.field
            else:
                assert "details" not in error
            assert len(answer.body) < 64 * 1024
            assert world.stored() == before
    assert len(names) >= 500
