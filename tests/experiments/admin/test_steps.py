"""The steps of an experiment in the admin: what each page says before, and what it does when it is answered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.models import Change, Environment
from experiments.lifecycle.changes import get_experiment, stop_experiment
from experiments.models import Experiment
from flags.changes.flag_changes import update_flag
from tests.admin import filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import OWN, flag_rules, record_clear_winner, run_experiment, step_arguments
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

HERE = {"opened_in": "production"}
WEIGHTS = {"weight_0": "50", "weight_1": "50"}


def address(page: str, experiment: Experiment) -> str:
    return reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk])


def chosen(response: Any) -> list[str]:
    return [choice.key for choice in response.context["form"].choices if choice.is_chosen]


# --- ship -------------------------------------------------------------------------------------------------------------


def test_ship__verdict_names_a_variant__has_it_chosen_and_needs_no_reason(production: Environment) -> None:
    experiment = run_experiment(production)
    record_clear_winner(production)
    client = sign_in()
    page = client.get(address("ship", experiment))
    assert chosen(page) == ["green"]
    assert "Ship green" in text_of(page)
    assert "control · the flag serves off Requires a reason: the verdict is to ship green." in text_of(page)

    sent = {"winner": "green", "holdback": "5", "reason": "", **HERE}
    response = client.post(address("ship", experiment), sent)
    assert messages_of(response) == ["green is shipped to the audience of the experiment. e is stopped."]
    assert get_experiment("e", production).winner == "green"
    held = {"type": "percentage", "percentage": 5, "salt": "e:holdback", "serves": False}
    assert flag_rules(production) == [held, {"type": "percentage", "percentage": 100}, *OWN]


def test_ship__no_verdict_yet__has_nothing_chosen_and_asks_for_the_reason_where_it_is_missing(
    production: Environment,
) -> None:
    experiment = run_experiment(production, planned_size=1000)
    client = sign_in()
    page = client.get(address("ship", experiment))
    assert chosen(page) == []
    shown = text_of(page)
    assert "the results cover 0 users of the 1,000 that are planned; the verdict is to keep the experiment" in shown

    before = revision()
    response = client.post(address("ship", experiment), {"winner": "green", **HERE})
    assert response.status_code == 200
    assert "Give a reason for shipping green" in response.context["form"].errors["reason"][0]
    assert (chosen(response), revision()) == (["green"], before)

    client.post(address("ship", experiment), {"winner": "green", "reason": "We like it.", **HERE})
    assert Change.objects.latest("revision").reason == "We like it."
    assert get_experiment("e", production).winner == "green"


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "winner"),
        ({"winner": "purple"}, "winner"),
        ({"winner": "green", "holdback": "many"}, "holdback"),
        ({"winner": "green", "holdback": "51"}, "holdback"),
        ({"winner": "green", "opened_in": "nowhere"}, "__all__"),
    ],
)
def test_ship__unacceptable__is_reported_where_it_was_typed(
    production: Environment, sent: dict[str, str], field: str
) -> None:
    experiment = run_experiment(production)
    before = revision()
    response = sign_in().post(address("ship", experiment), {**HERE, "reason": "Because.", **sent})

    assert list(response.context["form"].errors) == [field]
    assert revision() == before


def test_ship__no_flag__asks_for_no_holdback(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    client = sign_in()
    assert "Holdback" not in text_of(client.get(address("ship", experiment)))
    client.post(address("ship", experiment), {"winner": "green", "reason": "Because.", **HERE})
    assert get_experiment("e", production).winner == "green"


def test_ship__not_running__is_refused_in_the_words_of_the_domain(production: Environment) -> None:
    draft = ExperimentFactory(key="e")
    client = sign_in()
    assert client.get(address("ship", draft)).status_code == 200
    response = client.post(address("ship", draft), {"winner": "green", "reason": "Because.", **HERE})
    assert response.context["form"].non_field_errors() == [
        "The experiment is draft; only a running experiment can become stopped."
    ]


def test_ship__to_everyone__lists_the_rules_that_go_and_asks_for_a_reason(production: Environment) -> None:
    experiment = run_experiment(production)
    record_clear_winner(production)
    client = sign_in()
    text = text_of(client.get(address("ship", experiment)))
    assert "The experiment's audience Everyone. The flag's other rules stay." in text
    assert "Requires a reason: it removes rule 2 of the flag (20 % of everyone)." in text

    sent = {"winner": "green", "ship_to": "everyone", **HERE}
    refused = client.post(address("ship", experiment), sent)
    assert "it removes rule 2 of the flag" in refused.context["form"].errors["reason"][0]
    response = client.post(address("ship", experiment), {**sent, "reason": "All of them."})
    assert messages_of(response) == ["green is shipped to everyone. e is stopped."]
    assert flag_rules(production) == [{"type": "percentage", "percentage": 100}]


# --- new phase --------------------------------------------------------------------------------------------------------


def test_new_phase__page__starts_with_what_is_so_now(production: Environment) -> None:
    experiment = run_experiment(production, percentage=20)
    form = sign_in().get(address("new_phase", experiment)).context["form"]

    assert [field.value() for field in form.weights] == [50, 50]
    assert (form["percentage"].value(), form["conditions"].value()) == ("20 %", "[]")


def test_new_phase__other_percentage__begins_with_its_reason_and_its_rule(production: Environment) -> None:
    experiment = run_experiment(production, percentage=20)
    sent = {**WEIGHTS, "percentage": "60", "conditions": "[]", "reason": "No harm seen", **HERE}
    response = sign_in().post(address("new_phase", experiment), sent)

    why = "A phase cannot be undone; to assign users as before, open another one."
    assert messages_of(response) == [f"A new phase of e has started. {why}"]
    phases = get_experiment("e", production).phases
    assert [(phase["percentage"], phase["reason"]) for phase in phases] == [(20, ""), (60, "No harm seen")]
    assert flag_rules(production)[0]["percentage"] == 60


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "weight_0"),  # nothing new
        ({"weight_1": "-1"}, "weight_1"),
        ({"weight_1": "many"}, "weight_1"),
        ({"weight_0": "0", "weight_1": "0"}, "weight_0"),
        ({"percentage": "101"}, "percentage"),
        ({"conditions": '[{"attribute": "plan", "operator": "is"}]'}, "conditions"),
        ({"percentage": "50", "reason": ""}, "reason"),
    ],
)
def test_new_phase__unacceptable__is_reported_where_it_was_typed(
    production: Environment, sent: dict[str, str], field: str
) -> None:
    experiment = run_experiment(production)
    before = revision()
    typed = {**WEIGHTS, "conditions": "[]", "reason": "Because.", **HERE, **sent}
    response = sign_in().post(address("new_phase", experiment), typed)

    assert list(response.context["form"].errors) == [field]
    assert revision() == before


# --- start, stop and reopen -------------------------------------------------------------------------------------------


def test_start__page__tells_what_to_look_at_before(production: Environment) -> None:
    draft = ExperimentFactory(key="e")
    client = sign_in()
    assert "Checklist" in text_of(client.get(address("start", draft)))
    assert "no event purchase was ever received" in text_of(client.get(address("start", draft)))
    assert messages_of(client.post(address("start", draft), HERE)) == ["e is running."]
    assert "Checklist" not in text_of(client.get(address("start", draft)))


def test_stop__page__says_what_the_flag_will_go_by(production: Environment) -> None:
    experiment = run_experiment(production)
    client = sign_in()
    assert "The flag button uses its other rules again: 20 % of everyone" in text_of(
        client.get(address("stop", experiment))
    )
    client.post(address("stop", experiment), HERE)
    assert flag_rules(production) == OWN


def test_reopen__confirmed__runs_again(production: Environment) -> None:
    experiment = run_experiment(production)
    record_clear_winner(production)
    stop_experiment(**step_arguments(production, winner="green"))
    client = sign_in()
    assert "green is no longer the winner" in text_of(client.get(address("reopen", experiment)))
    response = client.post(address("reopen", experiment), {"reason": "Too early", **HERE})

    why = "The results of e are no longer frozen; to take this back, ship green again."
    assert messages_of(response) == [f"e is running again. {why}"]
    assert get_experiment("e", production).status == "running"


def test_buttons__of_each_status__are_the_steps_that_can_be_taken(production: Environment) -> None:
    client = sign_in()

    def offered(experiment: Experiment) -> set[str]:
        page = client.get(address("change", experiment)).content.decode()
        names = ("start", "ship", "new_phase", "stop", "reopen")
        return {name for name in names if f'href="{address(name, experiment)}"' in page}

    assert offered(ExperimentFactory()) == {"start"}
    assert offered(ExperimentFactory(running=True)) == {"ship", "new_phase", "stop"}
    assert offered(ExperimentFactory(running=True, stopped_at=timezone.now())) == {"reopen"}
    assert offered(ExperimentFactory(running=True, stopped_at=timezone.now() - timedelta(days=31))) == set()


@pytest.mark.parametrize("page", ["start", "ship", "new_phase", "stop", "reopen"])
def test_steps__viewer__may_take_none(production: Environment, page: str) -> None:
    experiment = ExperimentFactory(running=True)
    before = revision()
    client = sign_in("experiments.view_experiment")

    assert client.get(address(page, experiment)).status_code == 403
    assert client.post(address(page, experiment), HERE).status_code == 403
    assert revision() == before


def test_steps__of_a_flag_that_the_user_may_not_change__are_neither_offered_nor_taken(production: Environment) -> None:
    experiment, before = run_experiment(production), revision()
    client = sign_in("experiments.view_experiment", "experiments.change_experiment")

    page = client.get(address("change", experiment))
    for name in ("ship", "new_phase", "stop"):
        assert address(name, experiment) not in page.content.decode()
        assert client.get(address(name, experiment)).status_code == 403
        assert client.post(address(name, experiment), HERE).status_code == 403
    sent = filled(client, address("change", experiment), forced_variants='{"qa-1": "green"}')
    assert client.post(address("change", experiment), sent).status_code == 403
    assert revision() == before
    sent = filled(client, address("change", experiment), description="Better?")
    assert client.post(address("change", experiment), sent).status_code == 302


def test_stop__of_a_flag_without_other_rules__says_what_everybody_will_see(production: Environment) -> None:
    FlagFactory(key="button", on=True)
    drives = {"key": "button", "serves": {"control": False, "green": True}}
    experiment = ExperimentFactory(key="e", flag=drives, running=True)

    text = text_of(sign_in().get(address("stop", experiment)))
    assert "uses its other rules again. It has no other rules, so it is on for everyone." in text
    assert "You can reopen it within 30 days, unless its flag changes." in text
    update_flag(**{**step_arguments(production), "key": "button"}, changes={"enabled": False})
    assert "uses its other rules again. The flag is off and stays off." in text_of(
        sign_in(username="lin").get(address("stop", experiment))
    )


def test_page__of_an_experiment_whose_flag_is_off__says_that_nobody_sees_a_variant(production: Environment) -> None:
    experiment = run_experiment(production)
    client, words = sign_in(), "The flag is off, so no user sees a variant"
    assert words not in text_of(client.get(address("change", experiment)))
    update_flag(**{**step_arguments(production), "key": "button"}, changes={"enabled": False})
    assert words in text_of(client.get(address("change", experiment)))


@pytest.mark.parametrize("page", ["start", "ship", "new_phase", "stop", "reopen"])
def test_steps__experiment_that_is_gone__lead_home(db: None, page: str) -> None:
    where = reverse(f"admin:experiments_experiment_{page}", args=["01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"])

    assert sign_in().get(where).url == reverse("admin:index")


# --- the form ---------------------------------------------------------------------------------------------------------

AUDIENCE = {
    "percentage": "12.5",
    "conditions": '[{"attribute": "plan", "operator": "equals", "value": "pro"}]',
    "group": '{"key": "checkout", "from": 0, "to": 50}',
    "forced_variants": '{"qa-1": "green"}',
    "flag": '{"key": "button", "serves": {"control": false, "green": true}}',
    "planned_sample_size": "1000",
}


def test_form__of_a_draft__takes_whom_it_takes_in_and_what_it_drives(production: Environment) -> None:
    run_experiment(production)
    draft = ExperimentFactory(key="d")
    client = sign_in()
    sent = filled(client, address("change", draft), **AUDIENCE)
    assert client.post(address("change", draft), sent).status_code == 302

    experiment = get_experiment("d", production)
    assert (experiment.percentage, experiment.planned_size, experiment.forced_variants) == (
        12.5,
        1000,
        {"qa-1": "green"},
    )
    assert experiment.group == {"key": "checkout", "from": 0, "to": 50}
    assert experiment.flag == {"key": "button", "serves": {"control": False, "green": True}}
    assert [condition["attribute"] for condition in experiment.conditions] == ["plan"]
    again = filled(client, address("change", draft))
    assert client.post(address("change", draft), again).status_code == 302
    assert Change.objects.of("experiment", draft.pk).count() == 2  # what is sent back unchanged changes nothing


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("percentage", "101", "Must be a number from 0 to 100."),
        ("group", '{"key": "checkout", "from": 60, "to": 50}', "group.to: Must be more than from."),
        ("forced_variants", '{"qa-1": "purple"}', 'has no variant "purple"'),
        ("flag", '{"key": "nothing", "serves": {"control": false, "green": true}}', "No flag has the key nothing"),
        (
            "flag",
            '{"key": "button", "serves": {"control": false, "green": true}, "position": -1}',
            "flag.position: Must be from 0 to 200",
        ),
        ("planned_sample_size", "0", "Must be 1 to 2,000,000,000 users."),
        ("conditions", '[{"attribute": "plan", "operator": "is"}]', "conditions[0]"),
    ],
)
def test_form__unacceptable__is_reported_where_it_was_typed(
    production: Environment, field: str, typed: str, words: str
) -> None:
    draft = ExperimentFactory(key="d")
    client = sign_in()
    response = client.post(address("change", draft), filled(client, address("change", draft), **{field: typed}))

    assert words in response.context["adminform"].form.errors[field][0]


def test_form__part_of_a_group_that_is_taken__names_who_has_it(production: Environment) -> None:
    ExperimentFactory(key="first", group={"key": "checkout", "from": 0, "to": 60})
    draft = ExperimentFactory(key="d")
    client = sign_in()
    page = client.get(address("change", draft))
    assert page.context["known_groups"]() == {"checkout": "60 to 100 %"}
    sent = filled(client, address("change", draft), group='{"key": "checkout", "from": 50, "to": 100}')
    assert "first" in client.post(address("change", draft), sent).context["adminform"].form.errors["group"][0]


def test_form__of_a_running_experiment__still_takes_testers(production: Environment) -> None:
    experiment = run_experiment(production)
    client = sign_in()
    sent = filled(client, address("change", experiment), forced_variants='{"qa-1": "green"}')
    assert client.post(address("change", experiment), sent).status_code == 302

    assert get_experiment("e", production).forced_variants == {"qa-1": "green"}


def test_page__of_a_started_experiment__says_in_words_whom_it_takes_in(production: Environment) -> None:
    condition = {"attribute": "plan", "operator": "equals", "value": "pro"}
    group = {"key": "checkout", "from": 0, "to": 50}
    experiment = run_experiment(production, percentage=20, conditions=[condition], group=group, planned_size=1000)
    stop_experiment(**step_arguments(production, winner="green", holdback=5, reason="We like it."))
    text = text_of(sign_in().get(address("change", experiment)))

    assert "20 % of users whose plan equals pro, within 0 to 50 % of the group checkout" in text
    assert "button: control off · green on" in text
    assert "1,000 users" in text
    assert "green wins for the audience, with a holdback of 5 %, despite objections: We like it." in text


def test_page__for_a_viewer__shows_the_testers(production: Environment) -> None:
    forced = {f"qa-{at}": "green" for at in range(7)}
    experiment = ExperimentFactory(key="e", forced_variants=forced, running=True, actor=ACTOR, now=NOON)
    text = text_of(sign_in("experiments.view_experiment").get(address("change", experiment)))

    assert "qa-0 sees green, qa-1 sees green, qa-2 sees green, qa-3 sees green, qa-4 sees green and 2 more" in text
