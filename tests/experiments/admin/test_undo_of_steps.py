"""Undoing steps of experiments from their messages and pages: where the button is, and who has it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.models import Change, Environment, Source
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import experiment_as_json, get_experiment
from experiments.models import Experiment
from flags.changes.flag_changes import get_flag
from flags.changes.segment_changes import create_segment, get_segment
from tests.admin import AdminClient, filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import OWN, SERVES
from tests.factories import ExperimentFactory, FlagFactory

DRIVING = {"flag": {"key": "button", "serves": SERVES}}
HERE = {"opened_in": "production"}
RIGHTS = ("experiments.view_experiment", "experiments.change_experiment", "config.view_change")


@pytest.fixture
def draft(production: Environment) -> Experiment:
    FlagFactory(key="button", enabled=True, rules=OWN, environment=production)
    experiment: Experiment = ExperimentFactory(key="e", **DRIVING)
    return experiment


def take(client: AdminClient, step: str, experiment: Experiment, **sent: str) -> Any:
    """Take a step, and return the page that follows."""
    done = client.post(reverse(f"admin:experiments_experiment_{step}", args=[experiment.pk]), {**HERE, **sent})
    return client.get(done.url)


def ship(client: AdminClient, experiment: Experiment) -> Any:
    return take(client, "ship", experiment, winner="green", ship_to="audience", reason="So", holdback="")


def press(client: AdminClient, page: Any) -> Any:
    """Press Undo in the message, and return the page that follows."""
    [address] = undo_addresses(page)
    done = client.post(address, {"next": page.wsgi_request.get_full_path()})
    return client.get(done.url)


def undo_addresses(page: Any) -> list[str]:
    return re.findall(r'action="([^"]*/undo/)"', page.content.decode())


def message_of(page: Any) -> str:
    found = re.search(r'class="hy-done.*?<span>(.*?)</span>', page.content.decode(), re.DOTALL)
    assert found
    return found[1]


def page_of_change(client: AdminClient, number: int | None = None) -> Any:
    return client.get(reverse("admin:config_change_change", args=[number or revision()]))


def status(experiment: Experiment) -> str:
    experiment.refresh_from_db()
    return experiment.status


def test_start_and_stop__are_undone_from_their_messages(draft: Experiment, production: Environment) -> None:
    client, before = sign_in(), experiment_as_json(draft)
    page = press(client, take(client, "start", draft))
    assert "The 2 changes are undone. To take this back, start e again." in text_of(page)
    assert undo_addresses(page) == []
    assert experiment_as_json(get_experiment("e", production)) == before
    assert get_flag("button", production).rules == OWN

    take(client, "start", draft)
    running = experiment_as_json(get_experiment("e", production))
    for end in (lambda: take(client, "stop", draft), lambda: ship(client, draft)):
        page = end()
        assert status(draft) == "stopped"
        page = press(client, page)
        assert "The 2 changes are undone." in text_of(page)
        assert experiment_as_json(get_experiment("e", production)) == running
        assert get_flag("button", production).rules[0]["type"] == "experiment"
    assert {change.source for change in Change.objects.order_by("-revision")[:4]} == {Source.ADMIN}


def test_stop__undone_twice__is_stopped_again(draft: Experiment) -> None:
    client = sign_in()
    take(client, "start", draft)
    page = press(client, take(client, "stop", draft))
    assert status(draft) == "running"
    page = press(client, page)
    assert status(draft) == "stopped"
    press(client, page)
    assert status(draft) == "running"


def test_step__has_undo_on_the_page_of_each_change_and_in_the_history(draft: Experiment) -> None:
    client = sign_in()
    take(client, "start", draft)
    made, history = revision(), reverse("admin:experiments_experiment_history", args=[draft.pk])
    for number in (made - 1, made):
        assert undo_addresses(page_of_change(client, number)) == [f"/admin/config/change/{made - 1}/undo/"]
    assert undo_addresses(client.get(history)) == [f"/admin/config/change/{made - 1}/undo/"]


def test_start__after_an_exposure__says_on_its_page_why_it_stays(draft: Experiment) -> None:
    client = sign_in()
    take(client, "start", draft)
    made = revision()
    assign(draft.pk, "u", "green", timezone.now())
    why = "1 user has been exposed since, so the start cannot be undone. Stop the experiment instead."
    shown = page_of_change(client, made)
    assert why in text_of(shown)
    assert undo_addresses(shown) == []
    refused = client.post(reverse("admin:config_change_undo", args=[made]))
    assert messages_of(refused)[-1] == f"{why} Nothing was changed."
    assert status(draft) == "running"


def test_reopening__of_a_shipped_experiment__says_why_it_stays(draft: Experiment) -> None:
    client = sign_in()
    take(client, "start", draft)
    ship(client, draft)
    why = "The results of e are no longer frozen; to take this back, ship green again."
    page = take(client, "reopen", draft)
    assert message_of(page) == f"e is running again. {why}"
    assert undo_addresses(page) == []
    assert f'href="/admin/config/change/{Change.objects.latest("revision").write}/change/"' in page.content.decode()
    shown = page_of_change(client)
    assert (why in text_of(shown), undo_addresses(shown)) == (True, [])


def test_archive_and_deletion__are_undone_from_their_messages(production: Environment) -> None:
    experiment = ExperimentFactory(key="e")
    client, before = sign_in(), experiment_as_json(get_experiment("e", production))
    press(client, take(client, "archive", experiment))
    assert experiment_as_json(get_experiment("e", production)) == before
    press(client, press(client, take(client, "archive", experiment)))
    press(client, take(client, "unarchive", experiment))
    press(client, take(client, "delete", experiment))
    now = get_experiment("e", production)
    assert (now.pk, now.archived_at is not None) == (experiment.pk, True)


def test_step__without_the_right_on_its_flag__is_undone_by_nobody(draft: Experiment) -> None:
    take(sign_in(username="root"), "start", draft)
    made, half = revision(), sign_in(*RIGHTS, username="eve")
    assert undo_addresses(page_of_change(half, made)) == []
    assert half.post(reverse("admin:config_change_undo", args=[made])).status_code == 403
    whole = sign_in(*RIGHTS, "flags.change_flag", username="ann")
    press(whole, page_of_change(whole, made))
    assert status(draft) == "draft"


def test_deletion__by_somebody_who_may_not_add__has_no_button(production: Environment) -> None:
    experiment = ExperimentFactory(key="e")
    client = sign_in("experiments.view_experiment", "experiments.delete_experiment", "config.view_change")
    page = take(client, "delete", experiment)
    assert "Experiment e is deleted." in text_of(page)
    assert undo_addresses(page) == []
    assert "Show the change" in text_of(page)


def test_segment__that_opens_a_phase__is_undone_by_those_who_may_change_segments(production: Environment) -> None:
    segment = create_segment(key="s", user_ids=["u"], actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", conditions=[{"operator": "inSegment", "value": "s"}], running=True)
    client = sign_in("flags.view_segment", "flags.change_segment", "config.view_change")
    where = reverse("admin:flags_segment_change", args=[segment.pk])
    done = client.post(where, filled(client, where, user_ids="v"))
    page = client.get(done.url)
    assert Change.objects.latest("revision").kind == "experiment"
    press(client, page)
    assert get_segment("s").user_ids == ["u"]
    assert len(get_experiment("e", production).phases) == 3
