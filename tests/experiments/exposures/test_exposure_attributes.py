"""What an exposure keeps of its user, and its arrival: whichever statement writes it, totals hear of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from config.database.commit_order import arrived_since, take_watermark
from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.assignment import record_for_flag as show
from experiments.lifecycle.changes import start_experiment
from experiments.models import Experiment, Exposure
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.experiments.calls import asking, report
from tests.factories import ExperimentFactory

VARIANT = "/v1/experiments/e/variant"


@pytest.fixture
def experiment(db: None) -> Experiment:
    return ExperimentFactory(key="e", running=True)


def see(variant: str = "green", second: float = 5, **properties: Any) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), "u", "seen", moment, moment, {"experimentId": "e", "variant": variant, **properties})


def kept() -> Any:
    return Exposure.objects.values_list("attributes", flat=True).get()


def ask(second: float = 5, **attributes: Any) -> None:
    experiment = Experiment.objects.get()
    show(experiment.environment, experiment.key, "green", asking("u", NOON + timedelta(seconds=second), **attributes))


# --- attributes by the API -------------------------------------------------------------------------------------------


def test_variant__of_a_new_user__keeps_the_plain_attributes(api: Any, experiment: Experiment) -> None:
    sent = {"plan": "pro", "age": 41, "score": 0.5, "isMember": True, "tags": ["a"], "more": {}, "none": None}
    data(api.post(VARIANT, {"userId": "u", "attributes": {**sent, "long": "x" * 201}}))

    assert kept() == {"plan": "pro", "age": 41, "score": 0.5, "isMember": True}


@pytest.mark.parametrize("body", [{}, {"attributes": {}}, {"attributes": {"tags": ["a"]}}])
def test_variant__without_plain_attributes__keeps_none(api: Any, experiment: Experiment, body: dict[str, Any]) -> None:
    data(api.post(VARIANT, {"userId": "u", **body}))

    assert Exposure.objects.get(attributes__isnull=True).user_id == "u"


def test_variant__asked_again__keeps_what_was_known_the_first_time(api: Any, experiment: Experiment) -> None:
    for attributes in ({"plan": "free"}, {"plan": "pro", "age": 41}, {}):
        data(api.post(VARIANT, {"userId": "u", "attributes": attributes}))

    assert kept() == {"plan": "free"}


@pytest.mark.parametrize(
    ("attributes", "field", "code"),
    [
        (b"null", "attributes", "invalid_type"),
        (b"[]", "attributes", "invalid_type"),
        (b'"a"', "attributes", "invalid_type"),
        (b'{"a": "\\u0000"}', "attributes.a", "invalid_value"),
        (b'{"a": "\\ud800"}', "attributes.a", "invalid_value"),
        (b'{"\\u0000": 1}', "attributes", "invalid_value"),
        (b'{"a": NaN}', "attributes.a", "invalid_value"),
        (b'{"a": 1e999}', "attributes.a", "invalid_value"),
        (b'{"a": 18446744073709551616}', "attributes.a", "out_of_range"),
        (b'{"a": [[{"b": "\\u0000"}]]}', "attributes.a[0][0].b", "invalid_value"),
        (b'{"a": 1, "a": 2}', "attributes.a", "duplicate"),
    ],
)
def test_variant__attributes_that_no_database_keeps__are_refused_as_in_evaluation(
    api: Any, experiment: Experiment, attributes: bytes, field: str, code: str
) -> None:
    body = b'{"userId": "u", "attributes": %s}' % attributes
    refusals = [
        error(api.generic("POST", path, body, content_type="application/json"), 400, "validation_failed")
        for path in (VARIANT, "/v1/evaluate")
    ]

    assert [(each["field"], each["code"]) for each in refusals[0]["details"]] == [(field, code)]
    assert refusals[0]["details"] == refusals[1]["details"]
    assert not Exposure.objects.exists()


def test_report__by_an_event__keeps_its_plain_properties_but_the_reserved_ones(
    api: Any, experiment: Experiment
) -> None:
    properties = {"experimentId": "e", "variant": "green", "revenue": 1, "currency": "EUR", "plan": "pro", "page": []}
    report(api, "u", "green", properties=properties)

    assert kept() == {"plan": "pro"}


# --- attributes as exposures move ------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("variants", ["green green", "control green", "green control"])
def test_report__several__has_the_properties_of_the_earliest(
    production: Environment, experiment: Experiment, variants: str, together: bool
) -> None:
    first, second = variants.split()
    events = [see(second, 7, plan="later"), see(first, 5, plan="earliest", age=41), see(first, 6, city="Bern")]
    for batch in [events] if together else [[event] for event in events]:
        record(batch, production)

    assert kept() == {"plan": "earliest", "age": 41}


@pytest.mark.parametrize("variant", ["green", "control"])
def test_report__earlier_one_without_properties_comes_late__has_none(
    production: Environment, experiment: Experiment, variant: str
) -> None:
    record([see(plan="pro")], production)
    record([see(variant, second=3)], production)

    assert Exposure.objects.get(attributes__isnull=True).exposed_at == NOON + timedelta(seconds=3)


def test_report__before_a_start_under_way__has_its_properties(production: Environment) -> None:
    ExperimentFactory(key="e")
    record([see(second=0.2, plan="pro", revenue=3)], production)
    start_experiment(key="e", environment=production, actor=ACTOR, now=NOON, started_at=NOON)

    assert kept() == {"plan": "pro"}


@pytest.mark.parametrize(
    ("reported", "sent", "expected"),
    [
        ({"plan": "pro"}, {"plan": "free", "age": 41}, {"plan": "pro"}),
        ({"plan": "pro"}, {}, {"plan": "pro"}),
        ({}, {"plan": "free"}, {"plan": "free"}),
        ({}, {}, None),
    ],
)
@pytest.mark.parametrize("is_reported_first", [True, False])
def test_assign__reported_too__keeps_what_was_stored_first_and_else_what_comes(
    production: Environment,
    experiment: Experiment,
    is_reported_first: bool,
    reported: dict[str, Any],
    sent: dict[str, Any],
    expected: Any,
) -> None:
    if is_reported_first:
        record([see(second=3, **reported)], production)
        ask(**sent)
        assert kept() == expected
    else:
        ask(**sent)
        record([see(second=3, **reported)], production)
        assert kept() == (sent or reported or None)
    assert Exposure.objects.get().exposed_at == NOON + timedelta(seconds=3)


def test_erase_user__exposed_with_attributes__leaves_none_of_them(
    production: Environment, experiment: Experiment
) -> None:
    ask(plan="pro")
    erase_user("u", production)
    assert not Exposure.objects.exists()

    ask(age=41)
    assert kept() == {"age": 41}


# --- arrival ---------------------------------------------------------------------------------------------------------


def has_arrived_since(watermark: str) -> bool:
    condition, parameters = arrived_since(watermark, "arrival")
    return Exposure.objects.extra(where=[condition], params=parameters).exists()


def look() -> str:
    with transaction.atomic():
        return take_watermark()


def batch(*events: NewEvent) -> Callable[[Environment], object]:
    return lambda environment: record(events, environment)


def asked(environment: Environment) -> None:
    ask(second=5, plan="pro")


def nothing(environment: Environment) -> None:
    pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("before", "then"),
    [
        pytest.param(nothing, asked, id="assigned"),
        pytest.param(nothing, batch(see()), id="reported"),
        pytest.param(batch(see()), asked, id="assigned what was reported"),
        pytest.param(batch(see()), batch(see(second=3)), id="reported earlier"),
        pytest.param(batch(see()), batch(see("control", second=3)), id="reported earlier in another variant"),
        pytest.param(batch(see()), batch(see("control", second=7)), id="reported later in another variant"),
        pytest.param(asked, batch(see(second=3)), id="assigned earlier than thought"),
        pytest.param(asked, batch(see("control", second=3)), id="assigned and seen in another variant"),
    ],
)
def test_arrival__exposure_that_is_new_or_changed__is_current(
    production: Environment,
    before: Callable[[Environment], object],
    then: Callable[[Environment], object],
) -> None:
    ExperimentFactory(key="e", running=True)
    before(production)
    watermark = look()
    assert not has_arrived_since(watermark)

    then(production)
    assert has_arrived_since(watermark)
    assert not has_arrived_since(look())


@pytest.mark.django_db(transaction=True)
def test_arrival__exposure_reported_before_the_start__is_current(production: Environment) -> None:
    ExperimentFactory(key="e")
    record([see(second=0.2)], production)
    watermark = look()
    start_experiment(key="e", environment=production, actor=ACTOR, now=NOON, started_at=NOON)

    assert has_arrived_since(watermark)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("before", "then"),
    [(asked, asked), (asked, batch(see(second=7))), (batch(see()), batch(see(second=7), see(second=9, plan="pro")))],
)
def test_arrival__exposure_that_stays_as_it_is__stays(
    production: Environment,
    before: Callable[[Environment], object],
    then: Callable[[Environment], object],
) -> None:
    ExperimentFactory(key="e", running=True)
    before(production)
    watermark = look()
    then(production)

    assert not has_arrived_since(watermark)
