"""Two people edit one object: the second form keeps its input, shows both versions and offers a choice."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from config.access.environments import update_environment
from config.models import Change, Environment
from experiments.lifecycle.changes import update_experiment
from experiments.metrics.changes import create_metric, update_metric
from experiments.models import Experiment, Metric
from flags.changes.flag_changes import get_flag, update_flag
from flags.changes.segment_changes import create_segment, update_segment
from flags.models import Segment
from tests.admin import AdminClient, errors_of, filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

BY = {"actor": ACTOR, "now": NOON}


def shown(response: Any) -> list[tuple[str, str, str]]:
    """Return the properties that differ, in their version and in that of the person."""
    found = response.context["adminform"].form.conflict.comparisons
    return [(each.what, each.first, each.second) for each in found]


def sent_again(response: Any) -> dict[str, Any]:
    """Return what the form of a page sends, as a browser would."""
    form = response.context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in values.items() if value not in (None, False)}


def test_flag__saved_meanwhile__shows_both_versions_in_words(production: Environment) -> None:
    flag = FlagFactory(key="f", rules=[{"type": "percentage", "percentage": 25}], tags=["shop"])
    client, page = sign_in(), reverse("admin:flags_flag_change", args=[flag.pk])
    mine = filled(client, page, rules='[{"type": "percentage", "percentage": 50}]', tags="shop, mine")
    theirs = {"rules": [{"type": "percentage", "percentage": 10}], "owner": "growth"}
    update_flag(key="f", environment=production, changes=theirs, **BY)
    before = revision()
    response = client.post(page, mine)
    assert sorted(shown(response)) == [
        ("owner", "growth", "nothing"),
        ("rule 1, percentage", "10 %", "50 %"),
        ("tags", "none that the other lacks", "1 that the other lacks (mine)"),
    ]
    assert revision() == before
    text = text_of(response)
    assert "Two versions of f Test saved this flag on" in text
    assert "Theirs, saved" in text
    assert errors_of(response)["__all__"] == [
        "The flag has changed since you opened this page. Nothing was saved: choose one of the versions above."
    ]

    assert client.post(page, sent_again(response)).status_code == 302
    saved = get_flag("f", production)
    assert (saved.rules[0]["percentage"], saved.tags, saved.owner) == (50, ["shop", "mine"], "")


def test_flag__saved_meanwhile__asks_once_the_version_is_chosen(production: Environment) -> None:
    flag = FlagFactory(key="f")
    client, page = sign_in(), reverse("admin:flags_flag_change", args=[flag.pk])
    mine = filled(client, page, enabled=True)
    update_flag(key="f", environment=production, changes={"owner": "growth"}, **BY)
    response = client.post(page, mine)
    assert ("enabled", "off", "on") in shown(response)
    assert "Switch on f?" in text_of(client.post(page, sent_again(response)))
    assert get_flag("f", production).enabled is False


def test_flag__saved_twice_meanwhile__shows_the_newest_version(production: Environment) -> None:
    flag = FlagFactory(key="f")
    client, page = sign_in(), reverse("admin:flags_flag_change", args=[flag.pk])
    mine = filled(client, page, description="Mine")
    for text in ("First", "Second"):
        update_flag(key="f", environment=production, changes={"description": text}, **BY)
        response = client.post(page, mine)
        [(what, theirs, _)] = shown(response)
        assert (what, theirs) == ("description", text)
        mine = sent_again(response)
    assert client.post(page, mine).status_code == 302
    assert get_flag("f", production).description == "Mine"


def test_flag__that_can_no_longer_be_saved__shows_why(production: Environment) -> None:
    flag = FlagFactory(key="f")
    client, page = sign_in(), reverse("admin:flags_flag_change", args=[flag.pk])
    mine = filled(client, page, rules='[{"type": "percentage", "percentage": 500}]')
    update_flag(key="f", environment=production, changes={"owner": "growth"}, **BY)
    assert "rules" in errors_of(client.post(page, mine))
    assert get_flag("f", production).owner == "growth"


def test_segment__saved_meanwhile__shows_who_is_in_each_version() -> None:
    segment = create_segment(key="s", user_ids=["a", "b"], **BY)
    client, page = sign_in(), reverse("admin:flags_segment_change", args=[segment.pk])
    mine = filled(client, page, user_ids="a\nc")
    update_segment(key="s", changes={"user_ids": ["a", "d", "e"]}, **BY)
    response = client.post(page, mine)
    assert shown(response) == [("user IDs", "2 that the other lacks (d, e)", "1 that the other lacks (c)")]
    assert client.post(page, sent_again(response) | {"user_ids": "a\nc"}).status_code == 302
    assert Segment.objects.get().user_ids == ["a", "c"]


def test_metric__saved_meanwhile__shows_both_versions() -> None:
    metric = create_metric(key="m", type="count", event="view", **BY)
    client, page = sign_in(), reverse("admin:experiments_metric_change", args=[metric.pk])
    mine = filled(client, page, event="see")
    update_metric(key="m", changes={"event": "look"}, may_make_version=False, **BY)
    response = client.post(page, mine)
    assert [row for row in shown(response) if row[0] == "event"] == [("event", "look", "see")]
    assert client.post(page, sent_again(response)).status_code == 302
    assert Metric.objects.get().event == "see"


def test_experiment__saved_meanwhile__shows_both_versions(production: Environment) -> None:
    experiment = ExperimentFactory(key="e")
    client, page = sign_in(), reverse("admin:experiments_experiment_change", args=[experiment.pk])
    mine = filled(client, page, hypothesis="Mine")
    update_experiment(key="e", environment=production, changes={"hypothesis": "Theirs"}, **BY)
    response = client.post(page, mine)
    assert [what for what, _, _ in shown(response)] == ["hypothesis"]
    assert client.post(page, sent_again(response)).status_code == 302
    assert Experiment.objects.get().hypothesis == "Mine"


def test_environment__saved_meanwhile__shows_both_versions(staging: Environment) -> None:
    client, page = sign_in(), reverse("admin:config_environment_change", args=[staging.pk])
    mine = filled(client, page, name="Mine")
    update_environment(staging, name="Theirs", **BY)
    response = client.post(page, mine)
    assert shown(response) == [("name", "Theirs", "Mine")]
    assert client.post(page, sent_again(response)).status_code == 302
    assert Environment.objects.get(pk=staging.pk).name == "Mine"


def test_both__typed_the_same__says_so(staging: Environment) -> None:
    client, page = sign_in(), reverse("admin:config_environment_change", args=[staging.pk])
    mine = filled(client, page, name="Same")
    update_environment(staging, name="Same", **BY)
    assert "Both versions are the same." in text_of(client.post(page, mine))


def test_conflict__once_saved__can_be_undone(production: Environment) -> None:
    flag = FlagFactory(key="f")
    client, page = sign_in(), reverse("admin:flags_flag_change", args=[flag.pk])
    mine = filled(client, page, description="Mine")
    update_flag(key="f", environment=production, changes={"description": "Theirs"}, **BY)
    response: Any = client.post(page, sent_again(client.post(page, mine)), follow=True)
    assert f"/change/{Change.objects.latest_revision()}/undo/" in response.content.decode()
    assert messages_of(response)
    assert isinstance(client, AdminClient)
