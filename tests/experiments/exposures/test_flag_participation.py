"""Get Variant of an experiment that drives a flag counts the users to whom the flag shows a variant, and no others."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models import Exposure
from tests.answers import data
from tests.flags.engine.reference import reference_bucket
from tests.flags.engine.test_participation import EXPERIMENTS, OTHER_RULES
from tests.selection import histories

pytestmark = [pytest.mark.django_db, pytest.mark.both_lanes]

SERVES = {"control": False, "treatment": True}
VARIANTS = [{"key": key, "weight": 50} for key in SERVES]
USERS = [f"user-{number}" for number in range(6)]
_NUMBERS = count()


def start(api: Any, key: str, flag: dict[str, Any], **values: Any) -> None:
    draft = {"key": key, "variants": VARIANTS, "flag": {"serves": SERVES, **flag}, **values}
    data(api.post("/v1/experiments", draft), 201)
    data(api.post(f"/v1/experiments/{key}/start"))


def create_flag(api: Any, key: str, **values: Any) -> None:
    data(api.post("/v1/flags", {"key": key, "enabled": True, **values}), 201)


def ask(api: Any, key: str, user_id: str, **attributes: Any) -> dict[str, Any]:
    return data(api.post(f"/v1/experiments/{key}/variant", {"userId": user_id, "attributes": attributes}))


def evaluate(api: Any, key: str, user_id: str, **attributes: Any) -> dict[str, Any]:
    return data(api.post(f"/v1/flags/{key}/evaluate", {"userId": user_id, "attributes": attributes}))


@histories(25)
@given(OTHER_RULES, EXPERIMENTS, OTHER_RULES, st.sampled_from(["pro", "free"]), st.randoms(use_true_random=False))
def test_get_variant__any_user_position_and_audience__agrees_with_the_flag(
    api: Any, before: list[Any], rule: dict[str, Any], after: list[Any], plan: str, random: Any
) -> None:
    number = next(_NUMBERS)
    flag, key = f"flag-{number}", f"experiment-{number}"
    create_flag(api, flag, rules=[*before, *after])
    others = {user_id: evaluate(api, flag, user_id, plan=plan) for user_id in USERS}
    audience = {name: rule[name] for name in ("percentage", "conditions") if name in rule}
    group = {"group": {**rule["group"], "key": f"group-{number}"}} if "group" in rule else {}
    forced = rule.get("forced", {})
    start(api, key, {"key": flag, "position": len(before)}, **audience, **group, forcedVariants=forced)
    assert [each["type"] for each in data(api.get(f"/v1/flags/{flag}"))["rules"]][len(before)] == "experiment"

    for user_id in USERS:
        body = {"userId": user_id, "attributes": {"plan": plan}}
        unrecorded = next(each for each in data(api.post("/v1/variants", body)) if each["experiment"] == key)
        calls = {
            "variant": lambda user_id=user_id: ask(api, key, user_id, plan=plan),
            "evaluation": lambda user_id=user_id: evaluate(api, flag, user_id, plan=plan),
        }
        answers = {name: calls[name]() for name in random.sample(sorted(calls), 2)}
        answer, evaluation = answers["variant"], answers["evaluation"]
        is_in = answer.get("inExperiment", True)
        assert is_in == Exposure.objects.filter(user_id=user_id, experiment__key=key).exists()
        assert (unrecorded["inExperiment"], unrecorded["variant"]) == (is_in, answer["variant"])
        assert unrecorded.get("reason") == answer.get("reason")
        if is_in or answer["reason"] == "forced":
            assert evaluation == {"enabled": SERVES[answer["variant"]], "reason": "rule_match"}
        else:
            assert (answer["variant"], evaluation) == ("control", others[user_id])
        if answer.get("reason") == "forced":
            assert answer["variant"] == forced[user_id]


def test_get_variant__user_who_does_not_reach_the_rule__is_not_in_the_experiment(api: Any) -> None:
    create_flag(api, "needed")
    testers = {"type": "users", "userIds": ["ann", "bob"]}
    create_flag(api, "f", rules=[testers], prerequisites=[{"flag": "needed"}])
    start(api, "e", {"key": "f", "position": 1}, forcedVariants={"bob": "treatment", "cyd": "treatment"})

    for user_id in ("ann", "bob"):
        answer = ask(api, "e", user_id)
        assert (answer["variant"], answer["inExperiment"], answer["reason"]) == ("control", False, "served_by_rule")
    assert ask(api, "e", "cyd")["reason"] == "forced"
    first = ask(api, "e", "dan")
    assert "inExperiment" not in first

    data(api.patch("/v1/flags/needed", {"enabled": False}))
    assert [ask(api, "e", user_id)["reason"] for user_id in ("ann", "cyd", "eve")] == ["prerequisite_failed"] * 3
    data(api.patch("/v1/flags/f", {"enabled": False}))
    assert [ask(api, "e", user_id)["reason"] for user_id in ("ann", "cyd", "eve")] == ["disabled"] * 3
    assert ask(api, "e", "dan") == first
    assert list(Exposure.objects.values_list("user_id", flat=True)) == ["dan"]


def test_get_variant__prerequisite_that_another_experiment_decides__goes_by_its_stored_variant(api: Any) -> None:
    create_flag(api, "needed")
    create_flag(api, "f", prerequisites=[{"flag": "needed"}])
    start(api, "first", {"key": "needed"})
    start(api, "second", {"key": "f"})
    seen = {user_id: ask(api, "first", user_id)["variant"] for user_id in USERS}
    assert set(seen.values()) == set(SERVES)
    turned = [{"key": "control", "weight": 0}, {"key": "treatment", "weight": 1}]
    data(api.post("/v1/experiments/first/phases", {"variants": turned, "reason": "All of them"}), 201)

    for user_id, variant in seen.items():
        assert ask(api, "second", user_id).get("reason") == (None if SERVES[variant] else "prerequisite_failed")


def test_get_variant__reported_user_whom_a_rule_matches_now__keeps_the_variant(api: Any) -> None:
    create_flag(api, "f", rules=[{"type": "users", "userIds": ["ann"]}])
    start(api, "e", {"key": "f", "position": 1})
    reported = {"event": "seen", "userId": "ann", "properties": {"experimentId": "e", "variant": "treatment"}}
    data(api.post("/v1/events", reported), 202)

    assert ask(api, "e", "ann").keys() == {"variant", "experimentId"}
    assert ask(api, "e", "ann")["variant"] == "treatment"


def test_phase__of_an_experiment_between_rules__stays_at_its_place(api: Any) -> None:
    first, last = {"type": "users", "userIds": ["ann"]}, {"type": "percentage", "percentage": 5}
    create_flag(api, "f", rules=[first, last])
    start(api, "e", {"key": "f", "position": 1})
    data(api.post("/v1/experiments/e/phases", {"percentage": 50, "reason": "Fewer"}), 201)

    rules = data(api.get("/v1/flags/f"))["rules"]
    assert (rules[0], rules[1]["percentage"], rules[2]) == (first, 50, last)
    for user_id in USERS:
        is_in = reference_bucket("e", user_id) < 50_000
        assert ask(api, "e", user_id).get("reason") == (None if is_in else "not_in_traffic")
    assert set(Exposure.objects.values_list("phase", flat=True)) <= {2}
