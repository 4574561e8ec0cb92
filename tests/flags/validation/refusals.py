"""The details of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import Detail, ErrorCode, ValidationFailed
from flags.validation.parsing import parse_flag


def refused(document: dict[str, Any], parse: Any = parse_flag) -> list[Detail]:
    with pytest.raises(ValidationFailed) as caught:
        parse({"key": "new-checkout", "enabled": True, **document})
    assert caught.value.code is ErrorCode.VALIDATION_FAILED
    return list(caught.value.details)


def blamed_in(document: dict[str, Any], parse: Any = parse_flag) -> list[tuple[str, str]]:
    return [(detail.field, str(detail.code)) for detail in refused(document, parse)]
