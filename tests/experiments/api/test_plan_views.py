"""The plan of an experiment in the API, and the archive."""

from __future__ import annotations

from typing import Any

import pytest

from tests.answers import data, error
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
PLAN = {
    **{"plannedSampleSize": 40_000, "minimumEffect": 0.05, "analysis": "fixed", "minimumDays": 14, "lookbackDays": 0},
    **{"owner": "Growth", "hypothesis": "A shorter form brings more sign-ups."},
}
DEFAULTS: dict[str, Any] = {"minimumDays": 7, "lookbackDays": 28, "analysis": "sequential", "minimumEffect": None}


def test_plan__that_was_sent__is_shown_and_registered_at_the_start(api: Any) -> None:
    draft = data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, "metrics": ["buy"], **PLAN}), 201)
    assert {name: draft[name] for name in PLAN} == PLAN
    assert draft["tuningSampleSize"] == 40_000

    registration = data(api.post("/v1/experiments/e/start"))["registration"]
    assert registration == {
        **{"primaryMetric": "buy", "direction": "increase", "windowHours": None, "metrics": ["buy"]},
        **{name: value for name, value in PLAN.items() if name not in ("owner", "hypothesis")},
        "tuningSampleSize": 40_000,
    }


def test_plan__of_defaults__is_left_out(api: Any) -> None:
    body = {"key": "e", "variants": VARIANTS, "metrics": ["buy"], **DEFAULTS}
    draft = data(api.post("/v1/experiments", body), 201)
    started = data(api.post("/v1/experiments/e/start"))

    assert list(draft) == ["id", "key", "description", "status", "variants", "metrics", "results", "createdAt"]
    assert started.keys() - draft.keys() == {"startedAt"}


def test_plan__of_whole_numbers_with_a_fraction_of_0__is_the_plan_without_it(api: Any) -> None:
    whole = {"plannedSampleSize": 4_000, "tuningSampleSize": 2_000, "minimumDays": 14, "lookbackDays": 0}
    written = {name: float(number) for name, number in whole.items()}
    data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, **written}), 201)

    draft = data(api.get("/v1/experiments/e"))
    assert {name: repr(draft[name]) for name in whole} == {name: repr(number) for name, number in whole.items()}
    assert data(api.patch("/v1/experiments/e", {"minimumDays": 21.0}))["minimumDays"] == 21


def test_plan__draft_sent_back_as_it_was_read__changes_nothing(api: Any) -> None:
    data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, **PLAN}), 201)
    read = api.get("/v1/experiments/e")

    assert api.patch("/v1/experiments/e", data(read)).headers["ETag"] == read.headers["ETag"]


def test_plan__null__removes_each_property(api: Any) -> None:
    data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, **PLAN, "tuningSampleSize": 700}), 201)
    changed = data(api.patch("/v1/experiments/e", dict.fromkeys((*PLAN, "tuningSampleSize"))))

    assert not {*PLAN, "tuningSampleSize"} & changed.keys()


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"analysis": "fixed"}, "plannedSampleSize", "required"),
        ({"minimumDays": 366}, "minimumDays", "out_of_range"),
        ({"minimumDays": True}, "minimumDays", "invalid_type"),
        ({"lookbackDays": 91}, "lookbackDays", "out_of_range"),
        ({"minimumEffect": 0}, "minimumEffect", "out_of_range"),
        ({"minimumEffect": [1]}, "minimumEffect", "invalid_type"),
        ({"analysis": None, "owner": 7}, "owner", "invalid_type"),
        ({"hypothesis": "h" * 2001}, "hypothesis", "too_long"),
        ({"archivedAt": "2026-01-01T00:00:00Z"}, "archivedAt", "invalid_value"),
    ],
)
def test_plan__unacceptable__is_refused_at_its_field(api: Any, body: dict[str, Any], field: str, code: str) -> None:
    ExperimentFactory(key="e")
    if field == "archivedAt":
        data(api.post("/v1/experiments/e/archive"))
    [detail] = error(api.patch("/v1/experiments/e", body), 400, "validation_failed")["details"]

    assert (detail["field"], detail["code"]) == (field, code)


def keys_of(answer: Any) -> list[str]:
    return [entry["key"] for entry in data(answer)]


def test_archive__stopped_and_drafts__are_left_out_of_lists(api: Any) -> None:
    for key in ("a", "b", "c"):
        ExperimentFactory(key=key, **({"stopped": True} if key == "b" else {}))
    archived = data(api.post("/v1/experiments/b/archive"))

    assert (archived["status"], "archivedAt" in archived) == ("stopped", True)
    assert keys_of(api.get("/v1/experiments")) == ["c", "a"]
    assert keys_of(api.get("/v1/experiments?archived=false")) == ["c", "a"]
    assert keys_of(api.get("/v1/experiments?archived=true")) == ["b"]
    assert data(api.get("/v1/experiments/b"))["archivedAt"] == archived["archivedAt"]
    assert "archivedAt" not in data(api.post("/v1/experiments/b/unarchive", {}))
    assert keys_of(api.get("/v1/experiments")) == ["c", "b", "a"]


def test_archive__running_with_a_body_or_unknown__is_refused(api: Any) -> None:
    ExperimentFactory(key="e", running=True)
    for operation in ("archive", "unarchive"):
        error(api.post(f"/v1/experiments/e/{operation}"), 409, "invalid_transition")
        error(api.post(f"/v1/experiments/e/{operation}", {"reason": "x"}), 400, "validation_failed")
        error(api.post(f"/v1/experiments/nobody/{operation}"), 404, "experiment_not_found")
    error(api.get("/v1/experiments?archived=maybe"), 400, "invalid_parameter")


def test_archive__version_that_is_old__is_refused(api: Any) -> None:
    ExperimentFactory(key="e")
    error(api.post("/v1/experiments/e/archive", headers={"If-Match": '"0"'}), 412, "precondition_failed")


def test_list__owner__is_matched_exactly(api: Any) -> None:
    ExperimentFactory(key="a", owner="Growth")
    ExperimentFactory(key="b", owner="Growth team")

    assert keys_of(api.get("/v1/experiments?owner=Growth")) == ["a"]
