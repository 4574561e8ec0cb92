"""Results as CSV: a row for each metric and variant, with the figures that JSON has."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from experiments.api.result_table import COLUMNS
from tests.experiments.conftest import SHOPPERS
from tests.experiments.results.asking import PATH, ask, refused
from tests.experiments.results.shop import METRICS, open_shop

pytestmark = pytest.mark.django_db


def table(response: Any) -> list[dict[str, str]]:
    assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
    reader = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    rows = list(reader)
    assert reader.fieldnames == list(COLUMNS)
    return rows


def test_table__of_all_metrics__has_a_row_for_each_and_variant(api, shop):
    rows, answer = table(api.get(PATH, headers={"Accept": "text/csv"})), ask(api)
    assert [(row["metric"], row["variant"]) for row in rows] == [
        (key, variant) for key in METRICS for variant in ("control", "green")
    ]
    control, green = rows[2:4]
    figures = answer["metrics"][1]["variants"][1]
    compared = figures["comparison"]
    assert float(green["value"]) == figures["value"]
    assert float(green["interval.lower"]) == figures["interval"]["lower"]
    assert float(green["difference.alwaysValid.pValue"]) == compared["difference"]["alwaysValid"]["pValue"]
    assert float(green["singleLook.lift.upper"]) == compared["singleLook"]["lift"]["upper"]
    assert (green["label"], green["familySize"]) == (compared["label"], str(compared["familySize"]))
    assert rows[7]["guardrail.usersNeeded"] == str(
        answer["metrics"][3]["variants"][1]["comparison"]["guardrail"]["usersNeeded"]
    )
    assert (green["users"], green["isControl"], green["isPrimary"]) == (str(figures["users"]), "false", "false")
    assert (control["isControl"], control["difference.estimate"], control["attribute"]) == ("true", "", "")


def test_table__with_a_breakdown__has_its_rows_after_the_others(api, shop):
    rows = table(api.get(PATH, {"breakdown": "country", "metric": "bought"}, headers={"Accept": "text/csv"}))
    assert [(row["attribute"], row["attributeValue"]) for row in rows[:2]] == [("", "")] * 2
    assert {row["attributeValue"] for row in rows[2:]} == {'"CH"', '"DE"', "null"}
    assert {(row["attribute"], row["metric"], row["type"]) for row in rows[2:]} == {("country", "bought", "conversion")}


def test_table__with_a_series__is_refused(api, shop):
    response = api.get(PATH, {"series": "daily"}, headers={"Accept": "text/csv"})
    assert "ask for JSON" in refused(response, "series", "invalid_value")


def test_table__with_cuped__has_raw_figures_beside_the_adjusted_ones(api, production):
    open_shop(production, SHOPPERS, metrics=("revenue",), lookback_days=14)
    [_, green], [metric] = table(api.get(PATH, headers={"Accept": "text/csv"})), ask(api)["metrics"]
    figures = metric["variants"][1]
    assert float(green["raw.value"]) == figures["raw"]["value"] != figures["value"]
    before = figures["comparison"]["beforeExposure"]
    assert float(green["beforeExposure.estimate"]) == before["estimate"]
    assert float(green["cuped.varianceReduction"]) == figures["comparison"]["cuped"]["varianceReduction"]
