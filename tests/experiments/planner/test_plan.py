"""GET /v1/planner with the plan of an experiment: guardrails, tuning, expected reduction, smallest effect, windows."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.lifecycle.changes import update_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from experiments.models.plan import tuning_size_of
from experiments.stats.planning import (
    Baseline,
    Demands,
    Tolerance,
    always_valid_users_to_be_safe,
    fixed_horizon_users_to_be_safe,
)
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.experiments.planner.asking import DAY, PATH, ask, expose, refused
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.usefixtures("clock")


def define(key: str, **values: Any) -> None:
    create_metric(**{"key": key, "type": "conversion", "event": key, "actor": ACTOR, "now": NOON, **values})


def buy(*numbers: int, name: str = "purchase", at: Any = NOON + 2 * DAY) -> None:
    for number in numbers:
        EventFactory(name=name, user_id=f"user-{number}", timestamp=at)


@pytest.mark.usefixtures("few_suffice")
class TestGuardrails:
    def test_guardrails__of_an_experiment__tell_the_users_until_they_are_safe(self, api: Any) -> None:
        define("errors", role="guardrail", direction="decrease", margin=0.2)
        define("refunds", role="guardrail", margin_absolute=0.01)
        define("crashes", role="guardrail")
        experiment = ExperimentFactory(key="e", metrics=["purchase", "errors", "refunds", "crashes"], running=True)
        expose(experiment, 100, at=NOON)
        buy(*range(0, 20, 2))
        buy(*range(0, 50, 2), name="errors")
        buy(*range(0, 10, 2), name="refunds")
        answer = ask(api, experiment="e", usersPerDay="100")

        errors, refunds, crashes = answer["guardrails"]
        demands = Demands(tuning_size=5000)
        given = Baseline(0.5), Tolerance(relative=0.2, is_decrease_good=True), demands
        assert (errors["metric"], errors["margin"], errors["marginAbsolute"]) == ("errors", 0.2, None)
        assert errors["baseline"] == 0.5
        fixed = fixed_horizon_users_to_be_safe(*given)
        assert errors["fixedHorizon"] == {
            "usersPerVariant": -(-fixed // 2),
            "users": fixed,
            "days": -(-fixed // 100),
        }
        assert errors["alwaysValid"]["users"] == always_valid_users_to_be_safe(*given)

        assert (refunds["margin"], refunds["marginAbsolute"]) == (None, 0.01)
        by_difference = fixed_horizon_users_to_be_safe(Baseline(0.1), Tolerance(absolute=0.01), demands)
        assert refunds["fixedHorizon"]["users"] == by_difference
        unknown = {"baseline": None, "standardDeviation": None, "varianceReduction": None}
        assert crashes == {
            "metric": "crashes",
            "margin": 0.1,
            "marginAbsolute": None,
            **unknown,
            "fixedHorizon": None,
            "alwaysValid": None,
        }

    def test_guardrails__of_a_draft__are_planned_from_past_experiments(self, api: Any) -> None:
        define("errors", role="guardrail")
        expose(ExperimentFactory(key="old", metrics=["errors"], running=True), 40, at=NOON)
        buy(*range(0, 10, 2), name="errors")
        ExperimentFactory(key="new", metrics=["errors", "purchase"])
        [guardrail] = ask(api, experiment="new", baseline="0.1")["guardrails"]
        assert (guardrail["metric"], guardrail["baseline"]) == ("errors", 0.25)

    def test_guardrails__without_an_experiment__are_none(self, api: Any) -> None:
        assert ask(api, baseline="0.1")["guardrails"] == []

    def test_guardrail__that_takes_more_users_than_there_are__has_no_size(self, api: Any) -> None:
        define("errors", role="guardrail", margin_absolute=1e-9)
        expose(ExperimentFactory(key="e", metrics=["purchase", "errors"], running=True), 20, at=NOON)
        buy(0, 2, name="errors")
        [guardrail] = ask(api, experiment="e", baseline="0.1")["guardrails"]
        assert (guardrail["baseline"], guardrail["fixedHorizon"], guardrail["alwaysValid"]) == (0.2, None, None)


class TestTuning:
    @pytest.mark.parametrize("weights", [(50, 50), (1, 1, 1), (90, 10), (2, 1, 3)])
    def test_plan__without_a_tuning_size__is_tuned_as_an_experiment_of_that_size_is(
        self, api: Any, weights: tuple[int, ...]
    ) -> None:
        variants = [{"key": key, "weight": weight} for key, weight in zip("abc", weights, strict=False)]
        experiment = ExperimentFactory(key="e", variants=variants)
        answer = ask(api, experiment="e", baseline="0.2")
        planned = answer["alwaysValid"]["users"]
        design = {"given_tuning_size": None, "planned_size": planned, "variants": experiment.variants}
        assert answer["assumptions"]["tuningSampleSize"] == tuning_size_of(design)

        update_experiment(
            key="e",
            environment=experiment.environment,
            changes={"planned_size": planned},
            actor=ACTOR,
            now=NOON,
        )
        assert ask(api, experiment="e", baseline="0.2") == answer

    def test_plan__of_a_started_experiment__has_its_tuning_size(self, api: Any) -> None:
        ExperimentFactory(key="e", running=True)
        assert ask(api, experiment="e", baseline="0.2")["assumptions"]["tuningSampleSize"] == 5000


class TestReduction:
    @pytest.fixture
    def measured(self, db: None, few_suffice: None) -> Experiment:
        """Half of the users bought before; they alone buy again."""
        experiment = ExperimentFactory(key="old", running=True)
        buy(*range(0, 8), at=NOON - DAY)
        expose(experiment, 16, at=NOON + DAY)
        buy(*range(0, 6), 14)
        return experiment

    @pytest.mark.usefixtures("measured")
    def test_history__with_values_before__tells_what_cuped_removes(self, api: Any) -> None:
        answer = ask(api, metric="purchase")
        reduction = answer["history"]["varianceReduction"]
        # In each variant: the squared correlation of (1 1 1 1 0 0 0 0) with (1 1 1 0 0 0 0 1) is 1/4, and of the same
        # with (1 1 1 0 0 0 0 0) it is 3/5. Pooled: (1 + 3/2)² / (4 · (2 + 15/8)).
        assert reduction == pytest.approx((1 + 1.5) ** 2 / (4 * (2 + 1.875)), rel=1e-9)
        assert answer["assumptions"]["varianceReduction"] == reduction
        plain = ask(api, metric="purchase", varianceReduction="0")
        assert plain["assumptions"]["varianceReduction"] == 0
        share = answer["fixedHorizon"]["usersPerVariant"] / plain["fixedHorizon"]["usersPerVariant"]
        assert share == pytest.approx(1 - reduction, rel=1e-3)

    @pytest.mark.usefixtures("measured")
    @pytest.mark.parametrize(("days", "is_expected"), [(28, True), (0, False)])
    def test_experiment__that_does_not_look_back__expects_nothing(self, api: Any, days: int, is_expected: bool) -> None:
        ExperimentFactory(key="new", lookback_days=days)
        answer = ask(api, experiment="new")
        assert (answer["assumptions"]["varianceReduction"] > 0) == is_expected
        assert answer["history"]["varianceReduction"] > 0

    def test_reduction__given__saves_that_share_of_users(self, api: Any) -> None:
        sent = {"type": "mean", "baseline": "10", "standardDeviation": "20"}
        plain, adjusted = (ask(api, **sent, varianceReduction=given) for given in ("0", "0.5"))
        assert adjusted["fixedHorizon"]["usersPerVariant"] == pytest.approx(
            plain["fixedHorizon"]["usersPerVariant"] / 2, abs=1
        )
        assert plain["history"] is None

    @pytest.mark.parametrize("value", ["-0.1", "0.991", "1"])
    def test_reduction__out_of_range__is_refused(self, api: Any, value: str) -> None:
        assert refused(api, varianceReduction=value)[:2] == ("varianceReduction", "out_of_range")


class TestEffect:
    def test_effect__of_an_experiment_with_a_smallest_one__is_that_one(self, api: Any) -> None:
        define("errors", direction="decrease")
        ExperimentFactory(key="rise", minimum_effect=0.08)
        ExperimentFactory(key="fall", minimum_effect=0.08, metrics=["errors"])
        rise = data(api.get(PATH, {"experiment": "rise", "baseline": "0.1"}))
        assert rise == ask(api, experiment="rise", baseline="0.1", mde="0.08")
        fall = data(api.get(PATH, {"experiment": "fall", "baseline": "0.1"}))
        assert fall["assumptions"]["mde"] == -0.08
        assert ask(api, experiment="fall", baseline="0.1", mde="0.1")["assumptions"]["mde"] == 0.1

    def test_effect__of_an_experiment_without_one__is_required(self, api: Any) -> None:
        ExperimentFactory(key="e")
        answer = error(api.get(PATH, {"experiment": "e", "baseline": "0.1"}), 400, "invalid_parameter")
        assert [(entry["field"], entry["code"]) for entry in answer["details"]] == [("mde", "required")]

    def test_experiment__with_a_guardrail_first__plans_its_first_goal(self, api: Any) -> None:
        define("errors", role="guardrail")
        define("income", type="revenue", event="purchase", currency="EUR")
        ExperimentFactory(key="e", metrics=["errors", "income"])
        sent = {"experiment": "e", "baseline": "10", "standardDeviation": "20"}
        assert ask(api, **sent)["assumptions"]["type"] == "mean"


class TestWindows:
    @pytest.mark.parametrize(
        ("meaning", "days"),
        [
            ({}, 0),
            ({"window_hours": 48}, 2),
            ({"window_hours": 25, "delay_hours": 24}, 3),
            ({"type": "retention", "from_day": 7, "to_day": 14}, 14),
        ],
    )
    def test_plan__of_a_metric_with_a_window__ends_when_the_last_windows_are_over(
        self, api: Any, meaning: dict[str, Any], days: int
    ) -> None:
        define("back", **meaning)
        ExperimentFactory(key="plain")
        ExperimentFactory(key="e", metrics=["back"])
        sent = {"baseline": "0.1", "usersPerDay": "5000"}
        plain, answer = (ask(api, experiment=key, **sent) for key in ("plain", "e"))
        assert answer["assumptions"]["maturityDays"] == days
        assert answer["fixedHorizon"]["days"] == plain["fixedHorizon"]["days"] + days
        # The plan sets a boundary for goals with a window, and `withWindow` says what one would save.
        planned = answer["alwaysValid"] if meaning else answer["withWindow"]
        assert planned == {**plain["withWindow"], "days": plain["withWindow"]["days"] + days}
        assert planned["users"] < plain["alwaysValid"]["users"]
        assert answer["assumptions"]["isPlanned"] == bool(meaning)

    def test_detectable__of_a_metric_with_a_window__is_by_the_users_whose_window_is_over(self, api: Any) -> None:
        define("back", window_hours=48)
        experiment = ExperimentFactory(key="e", metrics=["back"], running=True)
        expose(experiment, 60, at=NOON)
        expose(experiment, 40, at=NOON + DAY, first=60)
        days = ask(api, experiment="e", baseline="0.5")["detectable"]
        assert [entry["users"] for entry in days[:4]] == [60, 100, 100, 100]
        assert [entry["matureUsers"] for entry in days[:4]] == [0, 0, 60, 100]
        assert [entry["fixedHorizon"] is None for entry in days[:4]] == [True, True, False, False]
        assert days[-1]["matureUsers"] < days[-1]["users"]
