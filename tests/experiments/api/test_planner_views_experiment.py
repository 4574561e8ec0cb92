"""GET /v1/planner for an experiment: the weights of its variants, its pace, and what it could find by each day."""

from __future__ import annotations

import math
from typing import Any

import pytest

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.new_phase import open_phase
from tests.conftest import ACTOR, NOON
from tests.experiments.planner.asking import DAY, ask, expose, refused
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.usefixtures("clock")


def weighted(*weights: float) -> list[dict[str, Any]]:
    return [{"key": key, "weight": weight} for key, weight in zip("abcde", weights, strict=False)]


class TestWeights:
    @pytest.mark.parametrize("named", ["experiment", "metric"])
    @pytest.mark.parametrize(
        ("weights", "variants", "share", "users"),
        [
            # (v_t / s + v_c / (1 - s)) (z / difference)², with the variances of 10.5 % and of 10 %
            ((90, 10), 2, 0.1, 326435),
            ((10, 90), 2, 0.1, 315342),
            ((0.5, 0.5, 0), 2, 0.5, 115520),
            ((0, 3, 1), 2, 0.25, 155691),
            ((1, 0), 2, 0.5, 115520),  # nothing to compare, so that it is what is usual
            ((1e308, 1e308, 0), 2, 0.5, 115520),
        ],
    )
    def test_weights__of_the_experiment__are_those_of_the_variances_of_both_arms(
        self,
        api: Any,
        few_suffice: None,
        named: str,
        weights: tuple[float, ...],
        variants: int,
        share: float,
        users: int,
    ) -> None:
        experiment = ExperimentFactory(key="e", variants=weighted(*weights), running=True)
        for number in range(2):
            assign(experiment.pk, f"user-{number}", "a", NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        sent = {"experiment": "e"} if named == "experiment" else {"metric": "purchase"}
        answer = ask(api, baseline="0.1", usersPerDay="1000", **sent)
        assumed = answer["assumptions"]
        assert (assumed["variants"], assumed["smallestShare"]) == (variants, share)
        assert answer["fixedHorizon"] == {
            "usersPerVariant": math.ceil(users * share),
            "users": users,
            "days": math.ceil(users / 1000),
        }

    def test_weights__three_of_the_same_size__take_three_times_what_one_takes(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(0.1, 0.1, 0.1))
        answer = ask(api, baseline="0.1", experiment="e")["fixedHorizon"]
        assert math.ceil(answer["users"] / 3) == answer["usersPerVariant"]

    def test_weights__number_of_variants_sent__are_those_of_equal_ones(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(90, 10))
        assert ask(api, baseline="0.1", experiment="e", variants="2")["fixedHorizon"]["users"] == 115520

    def test_weights__one_next_to_nothing__asks_for_the_number_of_variants(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(1e300, 1e-300))
        assert refused(api, experiment="e")[:2] == ("variants", "required")
        assert ask(api, baseline="0.1", experiment="e", variants="2")["fixedHorizon"]["users"] == 115520


class TestExperiment:
    def test_experiment__with_few_users__has_its_own_pace_and_what_others_measured(self, api: Any) -> None:
        expose(ExperimentFactory(key="old", started_at=NOON - DAY), 200, at=NOON)
        expose(ExperimentFactory(key="new", running=True), 20, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        answer = ask(api, experiment="new")
        assert (answer["history"]["experiment"], answer["assumptions"]["usersPerDay"]) == ("old", 2)

    @pytest.mark.usefixtures("few_suffice")
    def test_experiment__running__tells_what_it_could_find_by_each_day(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", running=True, given_tuning_size=500)
        expose(experiment, 60, at=NOON + DAY)
        expose(experiment, 40, at=NOON + 3 * DAY, first=60)
        for number in range(0, 20, 2):
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + 4 * DAY)
        answer = ask(api, experiment="e")
        days = answer["detectable"]
        past = [entry for entry in days if not entry["isForecast"]]
        assert [entry["day"] for entry in past] == [f"2026-02-{day:02}" for day in range(1, 11)]
        assert [entry["users"] for entry in past] == [60, 60, *[100] * 8]
        assert (len(days), days[10]["day"], days[10]["users"], days[-1]["users"]) == (38, "2026-02-11", 110, 380)
        assert answer["assumptions"]["tuningSampleSize"] == 500
        for effects in ([entry[name] for entry in days] for name in ("fixedHorizon", "alwaysValid")):
            assert effects == sorted(effects, reverse=True)
        assert all(entry["fixedHorizon"] < entry["alwaysValid"] for entry in days)

    def test_experiment__at_the_users_planned__finds_the_effect_planned_for(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", running=True)
        answer = ask(api, baseline="0.4", mde="0.7", experiment="e")
        expose(experiment, answer["fixedHorizon"]["users"], at=NOON)
        today = ask(api, baseline="0.4", mde="0.7", experiment="e")["detectable"][0]
        assert today["users"] == answer["fixedHorizon"]["users"]
        assert today["fixedHorizon"] == pytest.approx(0.7, rel=0.01)

    def test_experiment__stopped__tells_of_no_days_to_come(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", stopped=True)
        expose(experiment, 20, at=NOON)
        answer = ask(api, experiment="e", baseline="0.5")
        assert [(entry["day"], entry["users"], entry["isForecast"]) for entry in answer["detectable"]] == [
            ("2026-01-31", 20, False)
        ]

    def test_experiment__draft__lends_its_variants_and_tells_of_no_days(self, api: Any) -> None:
        variants = [{"key": key, "weight": 1} for key in ("a", "b", "c")]
        ExperimentFactory(key="e", variants=variants, metrics=[])
        answer = ask(api, experiment="e", baseline="0.5")
        assert answer["assumptions"]["variants"] == 3
        assert answer["detectable"] is None

    def test_experiment__one_variant_alone_has_users__finds_nothing_yet(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", stopped=True)
        assign(experiment.pk, "user-1", "green", NOON)
        [day] = ask(api, experiment="e", baseline="0.5")["detectable"]
        assert (day["users"], day["fixedHorizon"], day["alwaysValid"]) == (1, None, None)

    def test_experiment__metric_that_it_has_not__is_refused_with_those_it_has(self, api: Any) -> None:
        ExperimentFactory(key="e", metrics=["purchase", "visit"])
        field, code, message = refused(api, experiment="e", metric="signup")
        assert (field, code) == ("metric", "unknown_reference")
        assert message == "Must be one of the experiment's metrics: purchase, visit."

    @pytest.mark.usefixtures("staging")
    def test_experiment__of_another_environment__is_unknown(self, api: Any, staging: Environment) -> None:
        ExperimentFactory(key="e", environment=staging)
        assert refused(api, experiment="e")[:2] == ("experiment", "unknown_reference")


class TestPhases:
    def test_experiment__in_a_phase_of_other_weights__goes_by_those_who_came_in_it(
        self, api: Any, production: Environment
    ) -> None:
        experiment = ExperimentFactory(key="e", variants=weighted(1, 1), started_at=NOON - 10 * DAY)
        who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON, "reason": "so"}
        open_phase(**who, opened_at=NOON + 6 * DAY, changes={"variants": weighted(3, 1)})
        for number in range(30):
            assign(experiment.pk, f"early {number}", "a", NOON - 9 * DAY)
        for number in range(8):
            assign(experiment.pk, f"late {number}", "a", NOON + 7 * DAY, phase=2)

        answer = ask(api, baseline="0.1", experiment="e")
        assert answer["assumptions"]["usersPerDay"] == pytest.approx(2)
        assert answer["assumptions"]["smallestShare"] == 0.25
        past = [(day["day"], day["users"]) for day in answer["detectable"] if not day["isForecast"]]
        assert past[0] == ((NOON + 7 * DAY).date().isoformat(), 8)
