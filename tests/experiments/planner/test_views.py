"""GET /v1/planner, as a client sees it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment, Scope
from experiments.exposures import assign
from experiments.metrics.changes import create_metric
from experiments.planner import history
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory

PATH = "/v1/planner"
DAY = timedelta(days=1)
NOW = NOON + 10 * DAY


@pytest.fixture(autouse=True)
def _clock() -> Any:
    with time_machine.travel(NOW, tick=False):
        yield


def ask(api: Any, **parameters: Any) -> Any:
    return data(api.get(PATH, {"mde": "0.05", **parameters}))


def refused(api: Any, **parameters: Any) -> tuple[str, str, str]:
    """The one detail of a refusal."""
    [detail] = error(api.get(PATH, {"mde": "0.05", "baseline": "0.1", **parameters}), 400, "invalid_parameter")[
        "details"
    ]
    return detail["field"], detail["code"], detail["message"]


class TestSizes:
    def test_planner__rate__answers_both_sizes_and_what_it_assumed(self, api: Any) -> None:
        assert ask(api, baseline="0.1") == {
            "fixedHorizon": {"usersPerVariant": 57761, "users": 115522, "days": None},
            "alwaysValid": {"usersPerVariant": 137336, "users": 274672, "days": None},
            "assumptions": {
                "type": "rate",
                "baseline": 0.1,
                "standardDeviation": None,
                "mde": 0.05,
                "power": 0.8,
                "alpha": 0.05,
                "variants": 2,
                "smallestShare": 0.5,
                "usersPerDay": None,
                "tuningSampleSize": 5000,
            },
            "history": None,
            "detectable": None,
        }

    def test_planner__mean__answers_by_its_standard_deviation(self, api: Any) -> None:
        """6281 by statsmodels' TTestIndPower for d = 0.05, at power 0.8."""
        found = ask(api, type="mean", baseline="-10", standardDeviation="20", mde="0.1")
        assert found["fixedHorizon"]["usersPerVariant"] == 6281
        assert found["assumptions"]["standardDeviation"] == 20

    @pytest.mark.parametrize(("baseline", "deviation", "mde"), [("10", "1", "0.5"), ("1e12", "1e-9", "0.05")])
    def test_planner__users_who_hardly_differ__are_two_a_variant(
        self, api: Any, baseline: str, deviation: str, mde: str
    ) -> None:
        found = ask(api, type="mean", baseline=baseline, standardDeviation=deviation, mde=mde, usersPerDay="3")
        assert found["fixedHorizon"] == {"usersPerVariant": 2, "users": 4, "days": 2}
        assert found["alwaysValid"]["usersPerVariant"] >= 2

    def test_planner__users_per_day__answers_whole_days(self, api: Any) -> None:
        found = ask(api, baseline="0.1", usersPerDay="5000")
        assert (found["fixedHorizon"]["days"], found["alwaysValid"]["days"]) == (24, 55)

    def test_planner__every_parameter__is_reckoned_with(self, api: Any) -> None:
        sent = {"power": 0.9, "alpha": 0.01, "variants": 4, "usersPerDay": 12.5, "tuningSampleSize": 100000}
        found = ask(api, baseline="0.1", **sent)
        assert {name: found["assumptions"][name] for name in sent} == sent
        assert found["fixedHorizon"]["users"] == 4 * found["fixedHorizon"]["usersPerVariant"]
        plain = ask(api, baseline="0.1", power=0.9, alpha=0.01, variants=4, usersPerDay=12.5)
        assert found["fixedHorizon"] == plain["fixedHorizon"]
        assert found["alwaysValid"] != plain["alwaysValid"]

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
        field, found, message = refused(api, **{parameter: value})
        assert (field, found) == (parameter, code)
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
        assert [(each["field"], each["code"]) for each in details] == [(name, "required") for name in missing]

    def test_planner__effect_that_takes_more_users_than_there_are__is_refused(self, api: Any) -> None:
        sent = {"type": "mean", "baseline": "1e-9", "standardDeviation": "1e12", "mde": "0.0001"}
        assert refused(api, **sent)[:2] == ("mde", "out_of_range")

    def test_planner__sent_twice__is_refused(self, api: Any) -> None:
        found = error(api.get(f"{PATH}?mde=0.1&mde=0.2&baseline=0.1"), 400, "invalid_parameter")
        assert found["details"][0]["code"] == "duplicate"


def expose(experiment: Any, users: int, *, at: Any, first: int = 0) -> None:
    """Users in turn to control and green."""
    for number in range(first, first + users):
        assign(experiment.pk, f"user-{number}", ("control", "green")[number % 2], at)


@pytest.fixture
def few_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FEWEST_USERS", 1)


class TestHistory:
    def test_metric__that_an_experiment_has_measured__is_known_by_its_control(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", running=True)
        expose(experiment, 200, at=NOON)
        for number in (*range(0, 20, 2), 1):
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
        found = ask(api, metric="purchase")
        assert found["history"] == {
            "experiment": "e",
            "from": "2026-01-31T12:00:00.000000Z",
            "to": "2026-02-10T12:00:00.000000Z",
            "users": 200,
            "usersPerDay": 20,
            "baseline": 0.1,
            "standardDeviation": None,
        }
        assert found["assumptions"]["baseline"] == 0.1
        assert found["assumptions"]["usersPerDay"] == 20
        assert found["fixedHorizon"] == {"usersPerVariant": 57761, "users": 115522, "days": 5777}
        assert found["detectable"] is None

    @pytest.mark.parametrize(("users", "known_by"), [(198, "old"), (199, "new")])
    def test_metric__of_few_users_in_the_newest_control__is_known_by_the_next_older_experiment(
        self, api: Any, users: int, known_by: str
    ) -> None:
        expose(ExperimentFactory(key="old", started_at=NOON), 199, at=NOON)
        expose(ExperimentFactory(key="new", started_at=NOON + DAY), users, at=NOON + DAY)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 2 * DAY)
        assert ask(api, metric="purchase")["history"]["experiment"] == known_by

    @pytest.mark.usefixtures("few_suffice")
    @pytest.mark.parametrize("buyers", [0, 2])
    def test_metric__that_the_newest_experiment_cannot_tell__is_known_by_an_older_one(
        self, api: Any, buyers: int
    ) -> None:
        """Where nobody buys, or everybody, there is nothing to plan with."""
        expose(ExperimentFactory(key="old", started_at=NOON), 4, at=NOON)
        newest = ExperimentFactory(key="new", started_at=NOON + DAY)
        for number in range(2):
            assign(newest.pk, f"new-{number}", "control", NOON + DAY)
        for user_id in ("user-0", *(f"new-{number}" for number in range(buyers))):
            EventFactory(purchase=True, user_id=user_id, timestamp=NOON + 2 * DAY)
        found = ask(api, metric="purchase")["history"]
        assert (found["experiment"], found["baseline"]) == ("old", 0.5)

    def test_metric__that_no_experiment_can_tell__is_known_by_events(self, api: Any) -> None:
        assign(ExperimentFactory(key="e", running=True).pk, "user-0", "control", NOON)
        EventFactory(purchase=True, user_id="user-1", timestamp=NOON)
        EventFactory(user_id="user-2", timestamp=NOON)
        found = ask(api, metric="purchase")["history"]
        assert (found["experiment"], found["baseline"]) == (None, 0.5)

    @pytest.mark.usefixtures("few_suffice")
    def test_metric__what_was_sent__stands_before_what_is_known(self, api: Any) -> None:
        expose(ExperimentFactory(key="e", running=True), 10, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        found = ask(api, metric="purchase", baseline="0.3", usersPerDay="7")
        assert found["history"]["baseline"] == 0.2
        assert (found["assumptions"]["baseline"], found["assumptions"]["usersPerDay"]) == (0.3, 7)

    @pytest.mark.usefixtures("few_suffice")
    def test_metric__of_several_experiments__is_known_by_the_newest_that_has_users(self, api: Any) -> None:
        for key, at, users in (("old", NOON, 4), ("new", NOON + DAY, 6), ("empty", NOON + 2 * DAY, 0)):
            expose(ExperimentFactory(key=key, started_at=at), users, at=at)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 3 * DAY)
        assert ask(api, metric="purchase")["history"]["experiment"] == "new"

    def test_metric__of_another_meaning_now__is_not_known_by_the_old_one(self, api: Any) -> None:
        expose(ExperimentFactory(key="e", running=True), 4, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        create_metric(key="purchase", type="count", event="purchase", actor=ACTOR, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 2 * DAY)
        EventFactory(user_id="user-9", timestamp=NOON + 2 * DAY)
        found = ask(api, metric="purchase")
        assert found["history"]["experiment"] is None
        assert found["assumptions"]["type"] == "mean"

    def test_metric__that_nobody_has_measured__is_known_by_the_users_who_came_lately(self, api: Any) -> None:
        for number in range(40):
            EventFactory(user_id=f"user-{number}", timestamp=NOON)
            if number < 10:
                EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
        EventFactory(purchase=True, user_id="long-ago", timestamp=NOW - 29 * DAY)
        EventFactory(purchase=True, user_id="user-39", timestamp=NOW - 29 * DAY)
        assert ask(api, metric="purchase")["history"] == {
            "experiment": None,
            "from": "2026-01-31T12:00:00.000000Z",
            "to": "2026-02-10T12:00:00.000000Z",
            "users": 40,
            "usersPerDay": 4,
            "baseline": 0.25,
            "standardDeviation": None,
        }

    def test_metric__of_other_environments__is_not_known(self, staging_api: Any) -> None:
        expose(ExperimentFactory(key="e", running=True), 10, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        details = error(staging_api.get(PATH, {"mde": 0.1, "metric": "purchase"}), 400, "invalid_parameter")["details"]
        assert [each["field"] for each in details] == ["baseline"]

    @pytest.mark.parametrize("metric", ["purchase", "zzz"])
    def test_metric__that_nobody_did__leaves_the_baseline_to_the_caller(self, api: Any, metric: str) -> None:
        assign(ExperimentFactory(key="e", metrics=[metric], running=True).pk, "user-0", "control", NOON)
        EventFactory(user_id="user-0", timestamp=NOON)
        sent = {"mde": "0.05", "metric": metric}
        [detail] = error(api.get(PATH, sent), 400, "invalid_parameter")["details"]
        assert (detail["field"], detail["code"]) == ("baseline", "required")
        assert detail["message"].startswith(
            "Is missing, and there is no history of this metric yet that tells one; send"
        )
        found = ask(api, metric=metric, baseline="0.1")
        assert (found["history"]["baseline"], found["history"]["users"]) == (None, 1)

    @pytest.mark.usefixtures("few_suffice")
    @pytest.mark.parametrize(
        ("columns", "baseline", "deviation"),
        [
            ({"type": "revenue", "event": "buy", "currency": "EUR"}, 10.0, math.sqrt(600 / 3)),
            ({"type": "revenue", "event": "buy", "currency": "EUR", "cap_value": 15.0}, 6.25, math.sqrt(168.75 / 3)),
            ({"type": "count", "event": "buy"}, 0.75, math.sqrt(2.75 / 3)),
            # R = 40 / 5, and the sum of (y - R d)² is (30 - 16)² + (10 - 8)² + 8² + 8²
            (
                {
                    "type": "ratio",
                    "event": "buy",
                    "property": "revenue",
                    "currency": "EUR",
                    "denominator": {"event": "view"},
                },
                8.0,
                math.sqrt((14**2 + 2**2 + 8**2 + 8**2) / 3) / 1.25,
            ),
        ],
    )
    def test_metric__mean__is_known_with_its_spread_alike_from_experiments_and_events(
        self, api: Any, columns: dict[str, Any], baseline: float, deviation: float
    ) -> None:
        create_metric(key="m", actor=ACTOR, at=NOON, **columns)
        for user_id, views, amounts in (("a", 2, (10, 20)), ("b", 1, (10,)), ("c", 1, ()), ("d", 1, ())):
            for _ in range(views):
                EventFactory(name="view", user_id=user_id, timestamp=NOON)
            for amount in amounts:
                spent = {"revenue": amount, "currency": "EUR"}
                EventFactory(name="buy", user_id=user_id, timestamp=NOON + DAY, properties=spent)
        of_events = ask(api, metric="m")
        experiment = ExperimentFactory(key="e", metrics=["m"], running=True)
        for user_id in "abcd":
            assign(experiment.pk, user_id, "control", NOON)
        of_experiment = ask(api, metric="m")
        assert (of_events["history"]["experiment"], of_experiment["history"]["experiment"]) == (None, "e")
        for found in (of_events, of_experiment):
            assert found["assumptions"]["type"] == "mean"
            assert found["history"]["users"] == 4
            assert found["history"]["baseline"] == pytest.approx(baseline)
            assert found["history"]["standardDeviation"] == pytest.approx(deviation)

    def test_metric__type_that_it_is_not__is_refused(self, api: Any) -> None:
        assert refused(api, metric="purchase", type="mean", standardDeviation="1")[:2] == ("type", "invalid_value")


def weighted(*weights: float) -> list[dict[str, Any]]:
    return [{"key": key, "weight": weight} for key, weight in zip("abcde", weights, strict=False)]


class TestWeights:
    @pytest.mark.parametrize("named", ["experiment", "metric"])
    @pytest.mark.parametrize(
        ("weights", "variants", "share", "users"),
        [
            ((90, 10), 2, 0.1, 577610),
            ((10, 90), 2, 0.1, 577610),
            ((0.5, 0.5, 0), 2, 0.5, 115522),
            ((0, 3, 1), 2, 0.25, 231044),
            ((1, 0), 2, 0.5, 115522),  # nothing to compare, so that it is what is usual
            ((1e308, 1e308, 0), 2, 0.5, 115522),
        ],
    )
    def test_weights__of_the_experiment__have_the_smallest_variant_say_when_all_have_enough(
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
        found = ask(api, baseline="0.1", usersPerDay="1000", **sent)
        assumed = found["assumptions"]
        assert (assumed["variants"], assumed["smallestShare"]) == (variants, share)
        assert found["fixedHorizon"] == {"usersPerVariant": 57761, "users": users, "days": math.ceil(users / 1000)}

    def test_weights__three_of_the_same_size__take_three_times_what_one_takes(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(0.1, 0.1, 0.1))
        found = ask(api, baseline="0.1", experiment="e")["fixedHorizon"]
        assert found["users"] == 3 * found["usersPerVariant"]

    def test_weights__number_of_variants_sent__are_those_of_equal_ones(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(90, 10))
        assert ask(api, baseline="0.1", experiment="e", variants="2")["fixedHorizon"]["users"] == 115522

    def test_weights__one_next_to_nothing__asks_for_the_number_of_variants(self, api: Any) -> None:
        ExperimentFactory(key="e", variants=weighted(1e300, 1e-300))
        assert refused(api, experiment="e")[:2] == ("variants", "required")
        assert ask(api, baseline="0.1", experiment="e", variants="2")["fixedHorizon"]["users"] == 115522


class TestExperiment:
    def test_experiment__with_few_users__has_its_own_pace_and_what_others_measured(self, api: Any) -> None:
        expose(ExperimentFactory(key="old", started_at=NOON - DAY), 200, at=NOON)
        expose(ExperimentFactory(key="new", running=True), 20, at=NOON)
        EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
        found = ask(api, experiment="new")
        assert (found["history"]["experiment"], found["assumptions"]["usersPerDay"]) == ("old", 2)

    @pytest.mark.usefixtures("few_suffice")
    def test_experiment__running__tells_what_it_could_find_by_each_day(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", running=True, tuning_size=500)
        expose(experiment, 60, at=NOON + DAY)
        expose(experiment, 40, at=NOON + 3 * DAY, first=60)
        for number in range(0, 20, 2):
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + 4 * DAY)
        found = ask(api, experiment="e")
        days = found["detectable"]
        past = [each for each in days if not each["isForecast"]]
        assert [each["day"] for each in past] == [f"2026-02-{day:02}" for day in range(1, 11)]
        assert [each["users"] for each in past] == [60, 60, *[100] * 8]
        assert (len(days), days[10]["day"], days[10]["users"], days[-1]["users"]) == (38, "2026-02-11", 110, 380)
        assert found["assumptions"]["tuningSampleSize"] == 500
        for effects in ([each[name] for each in days] for name in ("fixedHorizon", "alwaysValid")):
            assert effects == sorted(effects, reverse=True)
        assert all(each["fixedHorizon"] < each["alwaysValid"] for each in days)

    def test_experiment__at_the_users_planned__finds_the_effect_planned_for(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", running=True)
        found = ask(api, baseline="0.4", mde="0.7", experiment="e")
        expose(experiment, found["fixedHorizon"]["users"], at=NOON)
        today = ask(api, baseline="0.4", mde="0.7", experiment="e")["detectable"][0]
        assert today["users"] == found["fixedHorizon"]["users"]
        assert today["fixedHorizon"] == pytest.approx(0.7, rel=0.01)

    def test_experiment__stopped__tells_of_no_days_to_come(self, api: Any) -> None:
        experiment = ExperimentFactory(key="e", stopped=True)
        expose(experiment, 20, at=NOON)
        found = ask(api, experiment="e", baseline="0.5")
        assert [(each["day"], each["users"], each["isForecast"]) for each in found["detectable"]] == [
            ("2026-01-31", 20, False)
        ]

    def test_experiment__draft__lends_its_variants_and_tells_of_no_days(self, api: Any) -> None:
        variants = [{"key": key, "weight": 1} for key in ("a", "b", "c")]
        ExperimentFactory(key="e", variants=variants, metrics=[])
        found = ask(api, experiment="e", baseline="0.5")
        assert found["assumptions"]["variants"] == 3
        assert found["detectable"] is None

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
