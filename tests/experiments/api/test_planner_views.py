"""GET /v1/planner, as a client sees it: what it answers, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Scope
from tests.answers import data, error
from tests.experiments.planner.asking import PATH, ask, refused

pytestmark = pytest.mark.usefixtures("clock")


class TestSizes:
    def test_planner__rate__answers_both_sizes_and_what_it_assumed(self, api: Any) -> None:
        assert ask(api, baseline="0.1") == {
            "fixedHorizon": {"usersPerVariant": 57760, "users": 115520, "days": None},
            "alwaysValid": {"usersPerVariant": 71794, "users": 143588, "days": None},
            "withWindow": None,
            "assumptions": {
                "metric": None,
                "type": "rate",
                "baseline": 0.1,
                "standardDeviation": None,
                "mde": 0.05,
                "power": 0.8,
                "alpha": 0.05,
                "variants": 2,
                "smallestShare": 0.5,
                "isPlanned": True,
                "usersPerDay": None,
                "tuningSampleSize": 143588,
                "varianceReduction": 0,
                "maturityDays": 0,
            },
            "history": None,
            "guardrails": [],
            "detectable": None,
        }

    def test_planner__mean__answers_by_its_standard_deviation(self, api: Any) -> None:
        """6281 by statsmodels' TTestIndPower for d = 0.05, at power 0.8."""
        answer = ask(api, type="mean", baseline="-10", standardDeviation="20", mde="0.1")
        assert answer["fixedHorizon"]["usersPerVariant"] == 6281
        assert answer["assumptions"]["standardDeviation"] == 20

    @pytest.mark.parametrize(("baseline", "deviation", "mde"), [("10", "1", "0.5"), ("1e12", "1e-9", "0.05")])
    def test_planner__users_who_hardly_differ__are_two_a_variant(
        self, api: Any, baseline: str, deviation: str, mde: str
    ) -> None:
        answer = ask(api, type="mean", baseline=baseline, standardDeviation=deviation, mde=mde, usersPerDay="3")
        assert answer["fixedHorizon"] == {"usersPerVariant": 2, "users": 4, "days": 2}
        assert answer["alwaysValid"]["usersPerVariant"] >= 2

    def test_planner__users_per_day__answers_whole_days(self, api: Any) -> None:
        answer = ask(api, baseline="0.1", usersPerDay="5000")
        assert (answer["fixedHorizon"]["days"], answer["alwaysValid"]["days"]) == (24, 29)

    def test_planner__every_parameter__is_reckoned_with(self, api: Any) -> None:
        sent = {"power": 0.9, "alpha": 0.01, "variants": 4, "usersPerDay": 12.5, "tuningSampleSize": 100000}
        answer = ask(api, baseline="0.1", **sent)
        assert {name: answer["assumptions"][name] for name in sent} == sent
        assert -(-answer["fixedHorizon"]["users"] // 4) == answer["fixedHorizon"]["usersPerVariant"]
        plain = ask(api, baseline="0.1", power=0.9, alpha=0.01, variants=4, usersPerDay=12.5)
        assert answer["fixedHorizon"] == plain["fixedHorizon"]
        assert answer["alwaysValid"] == plain["alwaysValid"]  # the boundary follows from the plan

    def test_planner__fall__takes_fewer_users_than_a_rise_of_a_rate_below_a_half(self, api: Any) -> None:
        rise, fall = (ask(api, baseline="0.1", mde=mde)["fixedHorizon"]["users"] for mde in ("0.2", "-0.2"))
        assert fall < rise

    def test_planner__scopes__needs_a_key_that_reads(self, client_of: Any) -> None:
        reads, tracks = client_of(Scope.SERVER), client_of(Scope.CLIENT)
        assert data(reads.get(PATH, {"mde": "0.1", "baseline": "0.1"}))
        error(tracks.get(PATH, {"mde": "0.1", "baseline": "0.1"}), 403, "forbidden")


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameter", "value", "code"),
        [
            *((name, "much", "invalid_type") for name in ("baseline", "standardDeviation", "mde", "power", "alpha")),
            *((name, "much", "invalid_type") for name in ("variants", "usersPerDay", "tuningSampleSize")),
            *(("mde", value, "invalid_type") for value in ("nan", "inf", "1e999", "0x1", "٣", "1,5", "5%", " 1")),
            *((name, "2.5", "invalid_type") for name in ("variants", "tuningSampleSize")),
            ("type", "share", "invalid_value"),
            ("mde", "0", "out_of_range"),
            ("mde", "0.00009", "out_of_range"),
            ("mde", "10.1", "out_of_range"),
            ("mde", "-1", "out_of_range"),
            ("mde", "9", "out_of_range"),  # the rate would be 1
            *(("power", value, "out_of_range") for value in ("0", "0.49", "1", "-1", "1e9")),
            *(("alpha", value, "out_of_range") for value in ("0", "0.21", "1", "-0.05")),
            *(("variants", value, "out_of_range") for value in ("1", "51", "-2")),
            *(("usersPerDay", value, "out_of_range") for value in ("0", "-1", "1e10")),
            *(("tuningSampleSize", value, "out_of_range") for value in ("0", "99", "10000001")),
            *(("baseline", value, "out_of_range") for value in ("0", "1", "-0.1", "1.5")),
            ("standardDeviation", "1", "unknown_field"),
            ("experiment", "nobody", "unknown_reference"),
            ("experiment", "é", "unknown_reference"),
            ("users", "1", "unknown_field"),
            ("baseline", "", "out_of_range"),
        ],
    )
    def test_planner__bad_parameter__is_named(self, api: Any, parameter: str, value: str, code: str) -> None:
        field, answer, message = refused(api, **{parameter: value})
        assert (field, answer) == (parameter, code)
        assert message.endswith(".")

    @pytest.mark.parametrize(
        ("parameter", "value", "code"),
        [
            ("baseline", "0", "out_of_range"),
            ("baseline", "1e13", "out_of_range"),
            ("standardDeviation", "0", "out_of_range"),
            ("standardDeviation", "-3", "out_of_range"),
            ("standardDeviation", "1e13", "out_of_range"),
        ],
    )
    def test_planner__bad_mean__is_named(self, api: Any, parameter: str, value: str, code: str) -> None:
        sent = {"type": "mean", "baseline": "10", "standardDeviation": "20", parameter: value}
        assert refused(api, **sent)[:2] == (parameter, code)

    @pytest.mark.parametrize(
        ("sent", "missing"),
        [
            ({"mde": "0.05"}, ["baseline"]),
            ({"mde": "0.05", "type": "mean"}, ["baseline", "standardDeviation"]),
            ({"mde": "0.05", "type": "mean", "baseline": "3"}, ["standardDeviation"]),
            ({"baseline": "0.1"}, ["mde"]),
        ],
    )
    def test_planner__missing_parameter__is_named(self, api: Any, sent: dict[str, str], missing: list[str]) -> None:
        details = error(api.get(PATH, sent), 400, "invalid_parameter")["details"]
        assert [(entry["field"], entry["code"]) for entry in details] == [(name, "required") for name in missing]

    def test_planner__effect_that_takes_more_users_than_there_are__is_refused(self, api: Any) -> None:
        sent = {"type": "mean", "baseline": "1e-9", "standardDeviation": "1e12", "mde": "0.0001"}
        assert refused(api, **sent)[:2] == ("mde", "out_of_range")

    def test_planner__sent_twice__is_refused(self, api: Any) -> None:
        answer = error(api.get(f"{PATH}?mde=0.1&mde=0.2&baseline=0.1"), 400, "invalid_parameter")
        assert answer["details"][0]["code"] == "duplicate"
