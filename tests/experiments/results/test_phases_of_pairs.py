"""A variant that joins later, leaves and comes back: each treatment is compared over the phases that it shares."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment
from experiments.results.archive import freeze
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address
from tests.experiments.results.asking import PATH, ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
LATER = NOON + timedelta(days=9)
USERS: Mapping[int, Mapping[str, tuple[int, int]]] = {
    1: {"control": (40, 8), "green": (40, 12), "blue": (0, 0)},
    2: {"control": (30, 15), "green": (30, 18), "blue": (60, 21)},
    3: {"control": (70, 14), "green": (60, 18), "blue": (0, 0)},
    4: {"control": (20, 12), "green": (1, 1), "blue": (60, 24)},
}
"""The users of each phase by variant, and how many of them buy."""


def weights_of(phase: int) -> list[dict[str, Any]]:
    return [{"key": key, "weight": users} for key, (users, _) in USERS[phase].items()]


@pytest.fixture
def shop(production: Environment) -> Experiment:
    design = {"metrics": ["buy"], "lookback_days": 0, "minimum_days": 0, "variants": weights_of(1)}
    shop: Experiment = ExperimentFactory(key="shop", environment=production, running=True, **design)
    for phase, by_variant in USERS.items():
        start = NOON + phase * DAY
        if phase > 1:
            arguments = {"key": "shop", "environment": production, "actor": ACTOR, "now": start}
            shop = open_phase(
                **arguments, opened_at=start, changes={"variants": weights_of(phase)}, reason=f"phase {phase}"
            )
        at, events = start + timedelta(hours=1), []
        for key, (users, buyers) in by_variant.items():
            for number in range(users):
                user, country = f"{key} {phase} {number}", ("CH", "DE")[number % 2]
                report = {"experimentId": "shop", "variant": key, "country": country}
                events.append(NewEvent(new_id(), user, "exposed", at, at, report))
                if number < buyers:
                    events.append(NewEvent(new_id(), user, "buy", at, at + timedelta(minutes=1), {}))
        record(events, production)
    return shop


def shares(phases: list[int], *keys: str) -> tuple[float, ...]:
    """Return the combined shares of these variants by hand, weighted by all their users and those of the control."""
    group = dict.fromkeys(["control", *keys])
    sizes = [sum(USERS[phase][key][0] for key in group) for phase in phases]
    return tuple(
        sum(size * USERS[phase][key][1] / USERS[phase][key][0] for size, phase in zip(sizes, phases, strict=True))
        / sum(sizes)
        for key in group
    )


@pytest.fixture
def answer(api: Any, shop: Experiment) -> Any:
    with time_machine.travel(LATER, tick=False):
        return ask(api, breakdown="country", series="daily")


def test_results__variants_with_users_in_other_phases__are_compared_over_those_that_they_share(answer: Any) -> None:
    control, green, blue = answer["metrics"][0]["variants"]
    for figures, phases in ((green, [1, 2, 3]), (blue, [2, 4])):
        of_control, of_treatment = shares(phases, figures["key"])
        basis, comparison = figures["comparison"]["basis"], figures["comparison"]
        assert basis["phases"] == phases
        assert basis["users"] == sum(USERS[phase][figures["key"]][0] for phase in phases)
        assert basis["control"]["users"] == sum(USERS[phase]["control"][0] for phase in phases)
        assert (figures["value"], basis["control"]["value"]) == pytest.approx((of_treatment, of_control))
        assert comparison["difference"]["estimate"] == pytest.approx(of_treatment - of_control)
        assert comparison["lift"]["estimate"] == pytest.approx(of_treatment / of_control - 1)
        last = figures["series"][-1]
        assert (last["value"], last["lift"]) == (figures["value"], comparison["lift"])
    assert control["value"] == green["comparison"]["basis"]["control"]["value"]
    assert control["users"] == control["matureUsers"] == 160


def test_results__phase_with_one_user_of_a_treatment__is_left_out_and_reported_for_it_alone(answer: Any) -> None:
    warnings = [reason for reason in answer["verdict"]["reasons"] if reason["code"] == "stratum_left_out"]
    assert [warning["message"] for warning in warnings] == [
        "buy of green: 21 users of phase 4 left out, because control or green had fewer than 2 users then."
    ]


def test_breakdown__of_variants_with_users_in_other_phases__is_compared_over_the_same(answer: Any) -> None:
    for part in answer["breakdown"]["values"]:
        _, green, blue = part["metrics"][0]["variants"]
        assert green["comparison"]["basis"]["phases"] == [1, 2, 3]
        assert blue["comparison"]["basis"]["phases"] == [2, 4]


def test_results__a_variant_that_joined_later__does_not_change_the_others(
    api: Any, production: Environment, answer: Any
) -> None:
    green = answer["metrics"][0]["variants"][1]
    for user in [f"blue {phase} {number}" for phase, users in USERS.items() for number in range(users["blue"][0])]:
        api.delete(f"/v1/users/{user}")
    with time_machine.travel(LATER, tick=False):
        alone = ask(api)["metrics"][0]["variants"][1]
    assert alone["comparison"]["basis"] == green["comparison"]["basis"]
    assert alone["value"] == green["value"]
    for name in ("estimate", "standardError"):
        assert alone["comparison"]["difference"][name] == green["comparison"]["difference"][name]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_explanation__of_each_variant__has_the_strata_of_its_comparison(
    api: Any, production: Environment, shop: Experiment, is_frozen: bool
) -> None:
    if is_frozen:
        freeze(stop_experiment(key="shop", environment=production, actor=ACTOR, now=LATER), LATER + 2 * DAY)
    with time_machine.travel(LATER, tick=False):
        for figures in ask(api)["metrics"][0]["variants"]:
            explained = ask(api, f"{PATH}/explain", metric="buy", variant=figures["key"])
            used = [phase for part in explained["strata"] if part["weight"] for phase in part["phases"]]
            comparison = figures["comparison"]
            assert explained["value"] == pytest.approx(figures["value"])
            assert sum(part["weight"] for part in explained["strata"]) == pytest.approx(1)
            assert used == ([1, 2, 3] if comparison is None else comparison["basis"]["phases"])


def test_table__of_variants_with_users_in_other_phases__has_what_each_comparison_rests_on(
    api: Any, shop: Experiment
) -> None:
    with time_machine.travel(LATER, tick=False):
        table = api.get(PATH, headers={"accept": "text/csv"}).content.decode()
        blue = ask(api)["metrics"][0]["variants"][2]
    row = next(row for row in csv.DictReader(io.StringIO(table)) if row["variant"] == "blue")
    basis = blue["comparison"]["basis"]
    assert (row["users"], row["basis.phases"], row["basis.users"]) == ("120", "[2,4]", "120")
    assert (row["basis.control.users"], float(row["basis.control.value"])) == ("50", basis["control"]["value"])


def test_results_page__treatment_of_other_phases_than_the_controls_row__says_so(shop: Experiment) -> None:
    with time_machine.travel(LATER, tick=False):
        page = text_of(sign_in().get(address(shop, "results")))
    assert (
        "blue is compared over phases 2 and 4, in which control has 54.71 % (50 users). The row of control shows "
        "phases 1, 2 and 3."
    ) in page
