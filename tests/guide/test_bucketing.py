"""The code of the page on bucketing computes what the service computes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.guide.markdown import code_blocks, read_page, table_rows
from tests.system.server import ROOT

PAGE = read_page("bucketing.md")


@pytest.fixture
def code() -> dict[str, Any]:
    [source] = [code for language, code in code_blocks(PAGE) if language == "python"]
    names: dict[str, Any] = {}
    exec(source, names)
    return names


@pytest.fixture
def vectors() -> dict[str, Any]:
    folder = ROOT / "tests/flags/vectors"
    return {name: json.loads((folder / f"{name}.json").read_text())[name] for name in ("buckets", "splits")}


def test_code__every_published_bucket__is_reproduced(code: dict[str, Any], vectors: dict[str, Any]) -> None:
    assert len(vectors["buckets"]) == 200
    for vector in vectors["buckets"]:
        assert code["bucket"](vector["salt"], vector["userId"]) == vector["bucket"]


def test_code__every_published_split__is_reproduced(code: dict[str, Any], vectors: dict[str, Any]) -> None:
    assert len(vectors["splits"]) == 50
    for vector in vectors["splits"]:
        weights = [(variant["key"], variant["weight"]) for variant in vector["weights"]]
        assert code["choose_variant"](weights, vector["salt"], vector["userId"]) == vector["variant"]


def test_code__share__ends_exactly_at_its_bucket(code: dict[str, Any]) -> None:
    assert code["is_in_share"](51.93, "new-checkout", "user-1") is True
    assert code["is_in_share"](51.929, "new-checkout", "user-1") is False


def test_table__buckets__are_published_vectors(vectors: dict[str, Any]) -> None:
    rows = [[cell.strip("`") for cell in row] for row in table_rows(PAGE)]
    published = {(vector["salt"], vector["userId"]): vector["bucket"] for vector in vectors["buckets"]}
    assert len(rows) == 3
    assert all(published[salt, user_id] == int(bucket) for salt, user_id, bucket in rows)


def test_text__split__is_a_published_vector(vectors: dict[str, Any]) -> None:
    example = re.search(
        r"salt `([^`]+)` and the weights `(\w+)` ([\d.]+), `(\w+)` ([\d.]+) and `(\w+)` ([\d.]+), "
        r"the user `([^`]+)` gets the variant `(\w+)`",
        " ".join(PAGE.split()),
    )
    salt, *weights, user_id, variant = example.groups()
    pairs = [{"key": key, "weight": float(weight)} for key, weight in zip(weights[::2], weights[1::2], strict=True)]
    assert {"salt": salt, "userId": user_id, "weights": pairs, "variant": variant} in vectors["splits"]
