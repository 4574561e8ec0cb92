"""Whether anything has arrived that results may count."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Environment
from experiments.exposures import queries
from experiments.exposures.queries import can_be_arrivals, current_arrivals, has_arrivals
from experiments.exposures.recording import assign
from tests.admin import sign_in
from tests.conftest import NOON
from tests.factories import EventFactory, ExperimentFactory

NAMES = {"buy", "käufe"}


@pytest.mark.django_db(transaction=True)
def test_arrivals__of_what_counts__are_noticed_once(django_assert_num_queries: Any) -> None:
    experiment, other = ExperimentFactory(running=True), ExperimentFactory(running=True)
    position = current_arrivals()
    assert can_be_arrivals(position)
    EventFactory(name="see")
    EventFactory(name="buy", environment=Environment.objects.get(key="staging"))
    assign(other.pk, "u", "green", NOON, {})
    with django_assert_num_queries(2):
        assert not has_arrivals(experiment, NAMES, position)
    assert not has_arrivals(experiment, set(), position)
    EventFactory(name="käufe")
    assert has_arrivals(experiment, NAMES, position)
    position = current_arrivals()
    assert not has_arrivals(experiment, NAMES, position)
    assign(experiment.pk, "u", "green", NOON, {})
    assert has_arrivals(experiment, NAMES, position)


@pytest.mark.django_db(transaction=True)
def test_arrivals__more_than_are_searched__count_as_a_change(monkeypatch: Any) -> None:
    experiment, position = ExperimentFactory(running=True), current_arrivals()
    monkeypatch.setattr(queries, "_MAX_SEARCHED", 3)
    EventFactory.create_batch(2, name="see")
    assert not has_arrivals(experiment, NAMES, position)
    EventFactory(name="see")
    assert has_arrivals(experiment, NAMES, position)


@pytest.mark.parametrize("text", ["", "x", "1", "1|", "1|2|3", "-1|2"])
def test_position__that_cannot_be__is_refused_by_the_page(db: None, text: str) -> None:
    experiment = ExperimentFactory(running=True)
    client, address = sign_in(), f"/admin/experiments/experiment/{experiment.pk}/results/changed/"
    answer = client.get(address, {"since": text})
    assert (answer.status_code, answer.json()["error"][:6]) == (400, "since:")
    answer = client.get(address, {"since": current_arrivals()})
    assert set(answer.json()) == {"position", "hasChanged"}
    assert sign_in("flags.view_flag", username="eve").get(address, {"since": text}).status_code == 403


def test_page__of_results__follows_unless_they_cannot_change(db: None) -> None:
    client = sign_in()
    page = f"/admin/experiments/experiment/{ExperimentFactory(running=True).pk}/results/"
    assert "live_results.js" in client.get(page).content.decode()
    assert "live_results.js" not in client.get(page, {"audit": "true"}).content.decode()
