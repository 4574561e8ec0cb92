"""Users of driven flags in every API: their variant, and when their exposure is recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.change_log.writing import writing
from config.models import Environment
from config.timestamps import format_timestamp
from experiments.models import Exposure
from flags import exposures as module
from flags.changes import experiment_rules
from flags.changes.flag_changes import create_flag
from flags.engine.types import Context
from flags.models import Flag
from tests.admin import sign_in
from tests.answers import data
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import COLOURS, experiment_rule
from tests.flags.engine.reference import reference_bucket, reference_variant
from tests.flags.ofrep import calls as ofrep

pytestmark = pytest.mark.both_lanes

WRITE = {"actor": ACTOR, "now": NOON}
ON, OFF = {"enabled": True, "reason": "rule_match"}, {"enabled": False, "reason": "rule_match"}
NEW = {"enabled": True, "reason": "rule_match", "variant": "new", "value": "#0f0"}
OLD = {"enabled": True, "reason": "rule_match", "variant": "old", "value": "#f00"}


@dataclass
class Exposures:
    """Stores exposures as `experiments` does, and records the calls."""

    variants: dict[tuple[str, str], str] = field(default_factory=dict)
    asked: list[tuple[str, set[str], str]] = field(default_factory=list)
    recorded: list[tuple[Any, ...]] = field(default_factory=list)
    elsewhere: str | None = None
    end: Callable[[], None] | None = None

    def load(
        self, environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
    ) -> Mapping[str, str]:
        self.asked.append((environment.key, set(experiments), user_id))
        return {key: self.variants[key, user_id] for key in experiments if (key, user_id) in self.variants}

    def record(self, environment: Environment, experiment: str, variant: str, context: Context) -> str | None:
        self.recorded.append((environment.key, experiment, context.user_id, variant, context.attributes))
        if self.end is not None:
            self.end()
            return None
        return self.variants.setdefault((experiment, context.user_id), self.elsewhere or variant)


@pytest.fixture
def exposures() -> Iterator[Exposures]:
    before = module._handlers.load, module._handlers.record
    own = Exposures()
    module.register(load=own.load, record=own.record)
    yield own
    module.register(load=before[0], record=before[1])


def drive(environment: Environment, key: str, rule: dict[str, Any], **values: Any) -> None:
    """A flag that an experiment drives."""
    create_flag(key=key, environment=environment, enabled=True, **values, **WRITE)
    with writing(**WRITE) as log:
        experiment_rules.put_rule(log, key=key, environment=environment, rule=rule)


@pytest.fixture
def driven(production: Environment, exposures: Exposures) -> Exposures:
    drive(production, "f", experiment_rule())
    return exposures


def assigned(user_id: str) -> str:
    return reference_variant([("control", 1), ("treatment", 1)], reference_bucket("checkout:variant", user_id))


TREATED = next(user_id for user_id in map("user-{}".format, range(99)) if assigned(user_id) == "treatment")


def evaluate(client: Any, user_id: str = TREATED, key: str = "f", **more: Any) -> Any:
    return data(client.post(f"/v1/flags/{key}/evaluate", {"userId": user_id, **more}))


def ask_by_ofrep(client: Any) -> Any:
    return ofrep.ask(client, "f", {"targetingKey": TREATED})


def evaluate_all(client: Any, user_id: str = TREATED, **more: Any) -> Any:
    return data(client.post("/v1/evaluate", {"userId": user_id, **more}))


# --- one flag --------------------------------------------------------------------------------------------------------


def test_evaluate__user_in_the_experiment__is_recorded_before_the_answer(api: Any, driven: Exposures) -> None:
    assert evaluate(api, attributes={"plan": "pro"}) == ON
    assert driven.recorded == [("production", "checkout", TREATED, "treatment", {"plan": "pro"})]


def test_ofrep__user_in_the_experiment__is_recorded_before_the_answer(api: Any, driven: Exposures) -> None:
    answer = ofrep.ask(api, "f", {"targetingKey": TREATED, "plan": "pro"})
    assert (answer["value"], answer["variant"], answer["reason"]) == (True, "on", "SPLIT")
    [(*whose, attributes)] = driven.recorded
    assert whose == ["production", "checkout", TREATED, "treatment"]
    assert attributes["plan"] == "pro"


def test_one_flag__other_variant_stored_before__is_served(api: Any, driven: Exposures) -> None:
    driven.variants["checkout", TREATED] = "control"
    assert evaluate(api) == OFF
    assert ofrep.ask(api, "f", {"targetingKey": TREATED})["value"] is False
    assert {variant for *_, variant, _ in driven.recorded} == {"control"}


def test_one_flag__other_variant_stored_meanwhile__is_served(api: Any, driven: Exposures) -> None:
    driven.elsewhere = "control"
    assert evaluate(api) == OFF
    driven.variants.clear()
    assert ofrep.ask(api, "f", {"targetingKey": TREATED})["value"] is False
    assert {variant for *_, variant, _ in driven.recorded} == {"treatment"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", [evaluate, ask_by_ofrep])
def test_one_flag__experiment_ended_meanwhile__is_what_it_is_now(
    api: Any, production: Environment, driven: Exposures, ask: Any
) -> None:
    def end() -> None:
        with writing(**WRITE) as log:
            experiment_rules.remove_rule(log, key="f", environment=production, experiment="checkout")

    driven.end = end
    answer = ask(api)
    assert answer.get("reason") in ("default", "STATIC"), answer
    assert "experiment" not in answer.get("metadata", {})
    assert len(driven.recorded) == 1


def test_one_flag__experiment_ended_elsewhere__does_not_say_that_the_user_is_in_it(api: Any, driven: Exposures) -> None:
    driven.end = lambda: None  # this host does not know it yet
    answer = ask_by_ofrep(api)
    assert (answer["value"], answer["metadata"]["inExperiment"]) == (True, False)
    assert evaluate(api) == ON


def test_one_flag__excluded_user__is_not_recorded(
    subtests: pytest.Subtests, api: Any, production: Environment, exposures: Exposures
) -> None:
    for more in [
        {"forced": {TREATED: "treatment"}},
        {"percentage": 0},
        {"conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]},
    ]:
        with undone(subtests, more=more):
            drive(production, "f", experiment_rule(**more))
            assert evaluate(api) == (ON if "forced" in more else {"enabled": True, "reason": "default"})
            assert ofrep.ask(api, "f", {"targetingKey": TREATED})["value"] is True
            assert exposures.recorded == []


def test_one_flag__that_is_off__reads_and_records_nothing(api: Any, driven: Exposures) -> None:
    data(api.patch("/v1/flags/f", {"enabled": False}))
    assert evaluate(api) == {"enabled": False, "reason": "disabled"}
    assert (driven.recorded, driven.asked) == ([], [])


def test_one_flag__evaluated_as_a_prerequisite__is_sticky_and_not_recorded(
    api: Any, production: Environment, driven: Exposures
) -> None:
    create_flag(key="needing", environment=production, enabled=True, prerequisites=[{"flag": "f"}], **WRITE)
    assert evaluate(api, key="needing") == {"enabled": True, "reason": "default"}
    driven.variants["checkout", TREATED] = "control"
    assert evaluate(api, key="needing") == {"enabled": False, "reason": "prerequisite_failed"}
    assert ofrep.ask(api, "needing", {"targetingKey": TREATED})["value"] is False
    assert driven.recorded == []


def test_one_flag__that_no_experiment_decides__asks_nothing(
    api: Any, production: Environment, driven: Exposures
) -> None:
    create_flag(key="plain", environment=production, enabled=True, **WRITE)
    evaluate(api, key="plain")
    ofrep.ask(api, "plain")
    evaluate_all(api, flags=["plain", "gone"])
    assert driven.asked == []


def test_one_flag__anonymous_user__reads_and_records_nothing(
    api: Any, production: Environment, exposures: Exposures
) -> None:
    rule = experiment_rule()
    rule["variants"][0]["serves"] = True
    drive(production, "f", rule)
    assert ofrep.ask(api, "f", {"plan": "pro"})["value"] is True
    assert (exposures.recorded, exposures.asked) == ([], [])


def test_one_flag__anonymous_user__needs_a_key_for_the_hash(api: Any, driven: Exposures) -> None:
    response = ofrep.one(api, "f", {"plan": "pro"})
    assert (response.status_code, response.json()["errorCode"]) == (400, "TARGETING_KEY_MISSING")


# --- many flags ------------------------------------------------------------------------------------------------------


def test_many_flags__of_two_experiments__are_sticky_by_one_question_and_record_nobody(
    api: Any, production: Environment, driven: Exposures
) -> None:
    drive(production, "c", experiment_rule("pricing", is_plain=False), **COLOURS)
    create_flag(key="plain", environment=production, enabled=True, **WRITE)
    for stored, expected in (("control", (OFF, OLD)), ("treatment", (ON, NEW))):
        driven.variants |= {("checkout", TREATED): stored, ("pricing", TREATED): stored}
        driven.asked.clear()
        answers = evaluate_all(api)
        assert (answers["f"], answers["c"]) == expected
        answers = ofrep.by_key(ofrep.ask_all(api, {"targetingKey": TREATED}))
        assert (answers["f"]["value"], answers["c"]["value"]) == (expected[0]["enabled"], expected[1]["value"])
        assert driven.asked == [("production", {"checkout", "pricing"}, TREATED)] * 2
    assert driven.recorded == []


def test_ofrep__driven_flag__names_experiment_and_variant_for_one_flag_and_for_all(
    api: Any, production: Environment, driven: Exposures
) -> None:
    create_flag(key="plain", environment=production, enabled=True, **WRITE)
    user = {"targetingKey": TREATED}
    answers = ofrep.by_key(ofrep.ask_all(api, user))
    assert driven.recorded == []
    assert answers["plain"]["metadata"].keys() == {"flagSetId", "reason", "version"}
    for answer in (answers["f"], ofrep.ask(api, "f", user)):
        metadata = answer["metadata"]
        assert (metadata["experiment"], metadata["experimentVariant"]) == ("checkout", "treatment")
        assert metadata["inExperiment"] is True


def test_ofrep__other_variant_stored_meanwhile__is_the_one_named(api: Any, driven: Exposures) -> None:
    driven.elsewhere = "control"
    assert ofrep.ask(api, "f", {"targetingKey": TREATED})["metadata"]["experimentVariant"] == "control"


def test_many_flags__some_that_are_named__ask_for_their_experiments_alone(
    api: Any, production: Environment, driven: Exposures
) -> None:
    drive(production, "c", experiment_rule("pricing", is_plain=False), **COLOURS)
    evaluate_all(api, flags=["c"])
    assert driven.asked == [("production", {"pricing"}, TREATED)]


def test_etag__what_is_assigned_changes__changes_too(api: Any, driven: Exposures) -> None:
    user = {"targetingKey": TREATED}
    etag = ofrep.bulk(api, user)["ETag"]
    assert ofrep.bulk(api, user, HTTP_IF_NONE_MATCH=etag).status_code == 304
    driven.variants["checkout", TREATED] = "control"
    changed = ofrep.bulk(api, user, HTTP_IF_NONE_MATCH=etag)
    assert (changed.status_code, ofrep.by_key(changed.json())["f"]["value"]) == (200, False)
    assert ofrep.bulk(api, user, HTTP_IF_NONE_MATCH=changed["ETag"]).status_code == 304


def test_other_environment__where_no_experiment_drives_the_flag__asks_nothing(
    staging_api: Any, driven: Exposures
) -> None:
    evaluate_all(staging_api)
    evaluate(staging_api)
    ofrep.ask_all(staging_api)
    assert driven.asked == []


# --- why -------------------------------------------------------------------------------------------------------------


def test_explain__stored_variant__is_shown_and_nothing_recorded(api: Any, driven: Exposures) -> None:
    driven.variants["checkout", TREATED] = "control"
    trace = data(api.post("/v1/flags/f/explain", {"userId": TREATED}))
    assert trace["enabled"] is False
    assignment = trace["rules"][0]["assignment"]
    assert (assignment["variant"], assignment["stored"], assignment["inExperiment"]) == ("control", "control", True)
    assert driven.recorded == []


def test_explain__moment_while_the_experiment_ran__goes_by_its_rule(
    api: Any, production: Environment, driven: Exposures
) -> None:
    driven.variants["checkout", TREATED] = "control"
    then = timezone.now()
    with writing(actor=ACTOR, now=then + timedelta(hours=1)) as log:
        experiment_rules.remove_rule(log, key="f", environment=production, experiment="checkout")
    assert data(api.post("/v1/flags/f/explain", {"userId": TREATED}))["rules"] == []
    trace = data(api.post("/v1/flags/f/explain", {"userId": TREATED, "at": format_timestamp(then)}))
    assert trace["rules"][0]["assignment"]["stored"] == "control"


# --- without experiments ---------------------------------------------------------------------------------------------


def test_evaluate__without_registered_functions__answers_by_the_hash(api: Any, driven: Exposures) -> None:
    module.register(load=None, record=None)
    assert evaluate(api) == ON
    assert evaluate_all(api) == {"f": ON}


# --- with experiments ------------------------------------------------------------------------------------------------


def start(api: Any, **values: Any) -> None:
    """An experiment that drives the flag `f`."""
    serves = {"control": False, "treatment": True}
    variants = [{"key": key, "weight": 1} for key in serves]
    flag = {"key": "f", "serves": serves}
    data(api.post("/v1/experiments", {"key": "checkout", "variants": variants, "flag": flag, **values}), 201)
    data(api.post("/v1/experiments/checkout/start"))


def test_experiment__flag_and_get_variant__agree_for_every_user(api: Any) -> None:
    nobody = {"type": "percentage", "percentage": 0}
    data(api.post("/v1/flags", {"key": "f", "enabled": True, "rules": [nobody]}), 201)
    group = {"key": "g", "from": 20, "to": 90}
    start(api, percentage=70, group=group, forcedVariants={"user-3": "treatment"})
    for at in range(40):
        user = {"userId": f"user-{at}"}
        doors = [
            lambda user: data(api.post("/v1/flags/f/evaluate", user))["enabled"],
            lambda user: data(api.post("/v1/experiments/checkout/variant", user))["variant"] == "treatment",
            lambda user: data(api.post("/v1/evaluate", user))["f"]["enabled"],
            lambda user: ofrep.ask(api, "f", {"targetingKey": user["userId"]})["value"],
        ]
        first = at % len(doors)
        assert len({door(user) for door in [*doors[first:], *doors[:first]]}) == 1


def test_experiment__one_flag_evaluated__is_the_exposure_and_stays_in_later_phases(api: Any) -> None:
    data(api.post("/v1/flags", {"key": "f", "enabled": True}), 201)
    start(api)
    evaluate_all(api)
    ofrep.bulk(api, {"targetingKey": TREATED})
    assert Exposure.objects.count() == 0
    assert evaluate(api, attributes={"plan": "pro"}) == ON
    exposure = Exposure.objects.get()
    assert (exposure.user_id, exposure.variant, exposure.phase) == (TREATED, "treatment", 1)
    assert exposure.attributes == {"plan": "pro"}

    data(api.post("/v1/experiments/checkout/phases", {"percentage": 0, "reason": "enough"}), 201)
    assert (evaluate(api), evaluate_all(api)) == (ON, {"f": ON})
    assert evaluate(api, user_id="newcomer") == {"enabled": True, "reason": "default"}
    assert Exposure.objects.count() == 1


@pytest.fixture
def turned_round(api: Any) -> datetime:
    """A time when all users got control, before a phase in which a user was exposed to the treatment."""
    data(api.post("/v1/flags", {"key": "f", "enabled": True}), 201)
    start(api, variants=[{"key": "control", "weight": 1}, {"key": "treatment", "weight": 0}])
    then = timezone.now()
    weights = [{"key": "control", "weight": 0}, {"key": "treatment", "weight": 1}]
    data(api.post("/v1/experiments/checkout/phases", {"variants": weights, "reason": "Turn it round."}), 201)
    assert evaluate(api) == ON
    return then


def test_explain__past_moment_before_the_user_was_exposed__knows_of_no_stored_variant(
    api: Any, turned_round: datetime
) -> None:
    def explained(**at: str) -> tuple[bool, str | None]:
        trace = data(api.post("/v1/flags/f/explain", {"userId": TREATED, **at}))
        return trace["enabled"], trace["rules"][0]["assignment"].get("stored")

    assert explained(at=format_timestamp(turned_round)) == (False, None)
    assert explained(at=format_timestamp(timezone.now())) == explained() == (True, "treatment")


def test_tryout__past_moment_before_the_user_was_exposed__knows_of_no_stored_variant(
    api: Any, turned_round: datetime
) -> None:
    page, client = reverse("admin:flags_flag_try_it", args=[Flag.objects.get().pk]), sign_in()

    def is_enabled(at: datetime) -> bool:
        sent = {"user_id": TREATED, "attributes": "{}", "opened_in": "production", "at": format_timestamp(at)}
        enabled: bool = client.post(page, sent).context["tryout"].trace.is_enabled
        return enabled

    assert (is_enabled(turned_round), is_enabled(timezone.now())) == (False, True)
