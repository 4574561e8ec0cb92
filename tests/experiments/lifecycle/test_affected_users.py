"""The recent users who see something else when an experiment starts or ships a variant, and what is made of that."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.urls import reverse

from config import snapshot
from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.affected_users import Affected, affected_by_shipping
from experiments.lifecycle.changes import get_experiment
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.models import Experiment
from flags.models import RecentUserSampling
from flags.usage.comparison import Preview
from flags.usage.previews import NoSample
from flags.usage.sample import POSITIONS
from tests.admin import sign_in, text_of
from tests.answers import data, error
from tests.conftest import NOON
from tests.experiments.lifecycle.shipping import A_DAY_LATER, SERVES
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.engine.reference import reference_bucket
from tests.flags.usage.users import seen, store

pytestmark = pytest.mark.django_db

PRO = [{"attribute": "plan", "operator": "equals", "value": "pro"}]
FLAG = {"key": "button", "serves": SERVES}
IDS = [f"user-{number}" for number in range(200)]
PROS = set(IDS[::4])


@pytest.fixture
def users(production: Environment) -> None:
    """Users of whom every fourth has the plan pro."""
    store(production, *(seen(user_id, plan="pro" if user_id in PROS else "free") for user_id in IDS))


def in_green(user_id: str) -> bool:
    return reference_bucket("e:variant", user_id) >= 50_000


def finding(experiment: Experiment, at: Any = NOON) -> tuple[Level, str]:
    snapshot.refresh()
    [found] = [each for each in check_experiment(experiment, at) if each.check is Check.AFFECTED_USERS]
    return found.status, found.message


def affected(experiment: Experiment, winner: str, **values: Any) -> Affected | None:
    snapshot.refresh()
    return affected_by_shipping(experiment, [winner], A_DAY_LATER, **values).get(winner)


# --- before the start ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("position", [0, 1])
def test_checklist__draft_with_a_flag__says_how_many_users_see_something_else(position: int) -> None:
    FlagFactory(key="button", on=True, rules=[{"type": "percentage", "percentage": 100, "conditions": PRO}])
    draft = ExperimentFactory(key="e", flag={**FLAG, "position": position}, conditions=PRO)
    number = sum(not in_green(user_id) for user_id in PROS)  # the others are on already, or outside the audience
    changed = "0" if position else f"{number} ({number / 2:.1f} %)"
    message = f"Of 200 users seen since 31 Jan 2026, {changed} see something else from the start."
    assert finding(draft) == (Level.OK, message)


@pytest.mark.usefixtures("users")
def test_checklist__sample_of_more_users__says_of_how_many(production: Environment) -> None:
    FlagFactory(key="button", on=True)
    RecentUserSampling.objects.update(limit=POSITIONS // 10)
    status, message = finding(ExperimentFactory(key="e", flag=FLAG, percentage=0))
    number = message.split()[1]
    assert 5 < int(number) < 50
    assert (status, message) == (
        Level.OK,
        f"Of {number} users seen since 31 Jan 2026, a sample of about {int(number) * 10}, 0 see something else from "
        "the start.",
    )


@pytest.mark.usefixtures("users")
def test_checklist__attribute_that_the_sample_does_not_have__is_unknown() -> None:
    FlagFactory(key="button", on=True)
    draft = ExperimentFactory(key="e", flag=FLAG, conditions=[{**PRO[0], "attribute": "tier"}])
    status, message = finding(draft)
    assert status is Level.UNKNOWN
    assert message.endswith("None of them has the attribute tier yet, so there may be more.")


def test_checklist__nothing_to_preview__says_why(settings: Any) -> None:
    assert finding(ExperimentFactory())[0] is Level.OK
    flag = FlagFactory(key="button", on=True)
    draft = ExperimentFactory(key="e", flag=FLAG)
    assert finding(draft) == (Level.UNKNOWN, NoSample.EMPTY.meaning)
    settings.RECENT_USERS = False
    assert finding(draft) == (Level.UNKNOWN, NoSample.OFF.meaning)
    flag.delete()
    assert finding(draft)[1].startswith("The experiment cannot drive its flag")


def test_checklist__after_the_start__has_nothing_to_preview() -> None:
    FlagFactory(key="button", on=True)
    assert finding(ExperimentFactory(flag=FLAG, running=True)) == (Level.OK, "The experiment has started already.")


# --- shipping --------------------------------------------------------------------------------------------------------


def run(**values: Any) -> Experiment:
    FlagFactory(key="button", on=True, rules=[{"type": "percentage", "percentage": 0}])
    experiment: Experiment = ExperimentFactory(
        **{"key": "e", "flag": FLAG, "minimum_days": 0, "conditions": PRO, **values}, running=True
    )
    return experiment


@pytest.mark.usefixtures("users")
def test_shipping__to_the_audience__changes_nobody_outside_of_it() -> None:
    preview = affected(run(), "green")
    assert isinstance(preview, Preview)
    assert (preview.changed, preview.outsiders) == (sum(not in_green(user_id) for user_id in PROS), 0)


@pytest.mark.usefixtures("users")
def test_shipping__to_everyone__changes_outsiders_if_they_saw_something_else() -> None:
    experiment = run()
    green, control = (affected(experiment, winner, ship_to="everyone") for winner in ("green", "control"))
    assert isinstance(green, Preview)
    assert (green.changed, green.outsiders) == (150 + sum(not in_green(user_id) for user_id in PROS), 150)
    assert isinstance(control, Preview)
    assert (control.changed, control.outsiders) == (sum(in_green(user_id) for user_id in PROS), 0)


@pytest.mark.usefixtures("users")
def test_shipping__testers_and_users_with_a_stored_variant__are_no_outsiders() -> None:
    experiment = run(forced_variants={IDS[1]: "control", IDS[2]: "green"})
    for user_id in IDS[5:7]:
        assign(experiment.pk, user_id, "control", NOON)
    preview = affected(experiment, "green", ship_to="everyone")
    assert isinstance(preview, Preview)
    assert preview.outsiders == 150 - 4
    preview = affected(experiment, "green")  # the tester of green goes on to the next rule
    assert isinstance(preview, Preview)
    assert (preview.outsiders, IDS[2] in {example.user_id for example in preview.examples} or preview.changed > 10) == (
        0,
        True,
    )


@pytest.mark.usefixtures("users")
def test_shipping__refused_anyway__is_not_previewed() -> None:
    experiment = run()
    assert affected_by_shipping(experiment, ["green"], NOON, ship_to="nobody") == {}
    assert affected_by_shipping(experiment, ["green"], NOON, holdback=0.00001) == {}
    assert affected_by_shipping(ExperimentFactory(key="draft", flag=FLAG), ["green"], NOON) == {}
    assert affected_by_shipping(ExperimentFactory(running=True), ["green"], NOON) == {}


@pytest.mark.usefixtures("users")
def test_shipping__flag_that_stays_off__changes_nobody(api: Any) -> None:
    experiment = run()
    data(api.patch("/v1/flags/button", {"enabled": False}))
    assert affected(experiment, "green", ship_to="everyone") is None
    assert affected(experiment, "green", ship_to="everyone", enable=False) is None


def run_and_switch_off(api: Any) -> Experiment:
    """An experiment among pros, on a flag that is on for everyone else but is off as a whole."""
    FlagFactory(key="button", on=True, rules=[{"type": "percentage", "percentage": 100}])
    experiment: Experiment = ExperimentFactory(key="e", flag=FLAG, minimum_days=0, conditions=PRO, running=True)
    assign(experiment.pk, IDS[0], "control", NOON)
    assign(experiment.pk, IDS[1], "control", NOON)  # no longer in the audience
    data(api.patch("/v1/flags/button", {"enabled": False}))
    return experiment


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(("winner", "changed", "outsiders"), [("green", 200, 149), ("control", 150, 149)])
def test_shipping__flag_switched_on__changes_what_outsiders_see_by_its_other_rules(
    api: Any, winner: str, changed: int, outsiders: int
) -> None:
    preview = affected(run_and_switch_off(api), winner, enable=True)
    assert isinstance(preview, Preview)
    assert (preview.changed, preview.outsiders) == (changed, outsiders)


@pytest.mark.usefixtures("users")
def test_stop__flag_switched_on_for_outsiders__objects_and_asks_for_a_reason(api: Any) -> None:
    run_and_switch_off(api)
    with time_machine.travel(A_DAY_LATER, tick=False):
        refused = [
            error(api.post("/v1/experiments/e/stop", {"winner": "green", "enable": enable}), 400, "validation_failed")
            for enable in (True, False)
        ]
    on, off = (each["details"][0]["message"] for each in refused)
    assert "it changes what 149 of 200 recent users see who are not in the experiment" in on
    assert "recent users" not in off


@pytest.mark.usefixtures("users")
def test_ship_page__flag_off__says_how_many_users_switching_it_on_affects(api: Any) -> None:
    experiment = run_and_switch_off(api)
    snapshot.refresh()
    with time_machine.travel(A_DAY_LATER, tick=False):
        response = sign_in().get(reverse("admin:experiments_experiment_ship", args=[experiment.pk]))
    audience, _ = response.context["form"].ship_to_choices
    sentence = "150 (75.0 %) see something else with control if the flag is switched on."
    assert any(each.endswith(f"{sentence} 149 of them are not in the experiment, so it requires a reason.")
               for each in audience.affected)  # fmt: skip
    assert set(audience.outsiders.split()) == {"control", "green"}


@pytest.mark.usefixtures("users")
def test_stop__outsiders_change__objects_and_asks_for_a_reason(api: Any, production: Environment) -> None:
    run()
    with time_machine.travel(A_DAY_LATER, tick=False):
        refused = error(
            api.post("/v1/experiments/e/stop", {"winner": "green", "shipTo": "everyone"}), 400, "validation_failed"
        )
        stopped = data(
            api.post("/v1/experiments/e/stop", {"winner": "green", "shipTo": "everyone", "reason": "All of them."})
        )
    words = "it changes what 150 of 200 recent users see who are not in the experiment"
    assert words in refused["details"][0]["message"]
    decision = get_experiment("e", production).decision or {}
    assert stopped["status"] == "stopped"
    assert "outsiders_affected" in decision["overridden"]


@pytest.mark.usefixtures("users")
def test_stop__audience_or_no_sample__raises_no_such_objection(
    api: Any, settings: Any, production: Environment
) -> None:
    run()
    with time_machine.travel(A_DAY_LATER, tick=False):
        audience = error(api.post("/v1/experiments/e/stop", {"winner": "green"}), 400, "validation_failed")
        settings.RECENT_USERS = False
        everyone = error(
            api.post("/v1/experiments/e/stop", {"winner": "green", "shipTo": "everyone"}), 400, "validation_failed"
        )
    assert not any("recent users" in refused["details"][0]["message"] for refused in (audience, everyone))


# --- the admin -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("users")
def test_ship_page__recent_users__says_how_many_each_choice_affects_and_which_needs_a_reason() -> None:
    experiment = run()
    snapshot.refresh()
    page = reverse("admin:experiments_experiment_ship", args=[experiment.pk])
    with time_machine.travel(A_DAY_LATER, tick=False):
        response = sign_in().get(page)
    audience, everyone = response.context["form"].ship_to_choices
    number = 150 + sum(not in_green(user_id) for user_id in PROS)
    sentence = f"Of 200 users seen since 31 Jan 2026, {number} ({number / 2:.1f} %) see something else with green."
    assert f"{sentence} 150 of them are not in the experiment, so it requires a reason." in everyone.affected
    assert sentence in text_of(response)
    assert (len(audience.affected), audience.outsiders, everyone.outsiders) == (2, "", "green")


def test_ship_page__no_recent_users__says_so_once() -> None:
    experiment = run()
    response = sign_in().get(reverse("admin:experiments_experiment_ship", args=[experiment.pk]))
    assert [choice.affected for choice in response.context["form"].ship_to_choices] == [[NoSample.EMPTY.meaning]] * 2
