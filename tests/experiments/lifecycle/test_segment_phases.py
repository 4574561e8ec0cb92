"""A change of a segment opens a new phase of the running experiments that use it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.errors import DomainError
from config.models import Change, Environment
from experiments.lifecycle import new_phase
from experiments.lifecycle.changes import reopen_experiment, stop_experiment
from experiments.models import Experiment, Exposure
from flags.changes.bulk import SegmentEntry
from flags.changes.segment_changes import create_segment, get_segment, update_segment
from flags.files.importing import Content, import_content
from tests.admin import errors_of, filled, sign_in
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.files.commands import refused

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
WHY = "The segment crowd was changed."
PRO = [{"attribute": "plan", "operator": "equals", "value": "pro"}]


def asking_for(*segments: str) -> list[dict[str, Any]]:
    return [{"operator": "inSegment", "value": segment} for segment in segments]


@pytest.fixture(autouse=True)
def _crowd(db: None) -> None:
    create_segment(key="crowd", user_ids=["ada"], **WRITE)


@pytest.fixture
def running() -> Experiment:
    return ExperimentFactory(key="e", conditions=asking_for("crowd"), percentage=50, running=True)


def reasons(key: str = "e", environment: str = "production") -> list[str]:
    """Return the reason of each phase; the first one, at the start, has none."""
    return [phase["reason"] for phase in Experiment.objects.get(key=key, environment__key=environment).phases]


def written_since(revision: int) -> list[tuple[str, str, str]]:
    rows = Change.objects.since(revision)
    return [(row.kind, row.key, row.environment) for row in rows]


@pytest.mark.parametrize("change", [{"userIds": ["ada", "lin"]}, {"conditions": PRO}])
def test_segment__other_members__opens_a_phase_that_is_configured_as_before(
    api: Any, running: Experiment, change: Any
) -> None:
    before = Change.objects.latest_revision()
    data(api.patch("/v1/segments/crowd", change, headers={"x-change-reason": "They asked."}))

    assert written_since(before) == [("segment", "crowd", ""), ("experiment", "e", "production")]
    row = Change.objects.latest("revision")
    assert (row.reason, len(row.before["phases"]), len(row.after["phases"])) == ("They asked.", 1, 2)
    first, second = data(api.get("/v1/experiments/e"))["phases"]
    assert (second["number"], second["reason"]) == (2, WHY)
    alike = ("variants", "percentage", "conditions")
    assert {name: first[name] for name in alike} == {name: second[name] for name in alike}
    assert first["startedAt"] < second["startedAt"]


@pytest.mark.parametrize("change", [{"description": "Other"}, {"userIds": ["ada"], "conditions": []}])
def test_segment__same_members__opens_no_phase(api: Any, running: Experiment, change: Any) -> None:
    data(api.patch("/v1/segments/crowd", change))
    assert reasons() == [""]


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"user_ids": ["ada", "lin"]}, ["", WHY]), ({"description": "Other"}, [""]), ({"user_ids": ["ada"]}, [""])],
)
def test_segment__changed_while_the_experiment_was_stopped__opens_a_phase_as_it_runs_again(
    running: Experiment, change: Any, expected: list[str]
) -> None:
    arguments = {"key": "e", "environment": running.environment, "actor": ACTOR}
    stop_experiment(**arguments, now=NOON)
    update_segment(key="crowd", changes=change, actor=ACTOR, now=NOON + timedelta(hours=1))
    assert reasons() == [""]
    reopen_experiment(**arguments, now=NOON + timedelta(hours=2))
    assert reasons() == expected


def test_segment__changed_while_one_with_all_its_phases_was_stopped__keeps_it_from_running_again(
    running: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_phase, "MAX_PHASES", 1)
    arguments = {"key": "e", "environment": running.environment, "actor": ACTOR, "now": NOON}
    stop_experiment(**arguments)
    update_segment(key="crowd", changes={"user_ids": ["lin"]}, actor=ACTOR, now=NOON)
    with pytest.raises(
        DomainError, match=r"The segment crowd was changed after the experiment was stopped, .* create a new"
    ) as error:
        reopen_experiment(**arguments)
    assert error.value.code == "experiment_locked"


def test_segment__asked_for_through_others__opens_a_phase_that_names_it(running: Experiment) -> None:
    create_segment(key="middle", conditions=asking_for("crowd"), **WRITE)
    create_segment(key="outer", conditions=asking_for("middle"), **WRITE)
    create_segment(key="apart", conditions=asking_for("crowd"), **WRITE)
    ExperimentFactory(key="outer", conditions=[*PRO, *asking_for("outer")], running=True)

    update_segment(key="crowd", changes={"user_ids": []}, **WRITE)
    assert (reasons(), reasons("outer")) == (["", WHY], ["", WHY])
    update_segment(key="middle", changes={"user_ids": ["lin"]}, **WRITE)
    update_segment(key="apart", changes={"user_ids": ["lin"]}, **WRITE)
    assert (reasons(), reasons("outer")) == (["", WHY], ["", WHY, "The segment middle was changed."])


def test_segment__asked_for_in_several_environments__opens_a_phase_in_each(
    running: Experiment, staging: Environment
) -> None:
    ExperimentFactory(key="e", environment=staging, conditions=asking_for("crowd"), running=True)
    update_segment(key="crowd", changes={"user_ids": []}, **WRITE)
    assert reasons() == reasons(environment="staging") == ["", WHY]


def test_segment__of_experiments_that_do_not_run_or_do_not_ask__opens_no_phase(db: None) -> None:
    create_segment(key="other", **WRITE)
    ExperimentFactory(key="draft", conditions=asking_for("crowd"))
    ExperimentFactory(key="stopped", conditions=asking_for("crowd"), stopped=True)
    ExperimentFactory(key="everybody", running=True)
    ExperimentFactory(key="others", conditions=asking_for("other"), running=True)
    before = Change.objects.latest_revision()

    update_segment(key="crowd", changes={"user_ids": []}, **WRITE)
    assert written_since(before) == [("segment", "crowd", "")]


def test_segment__of_an_experiment_that_drives_a_flag__leaves_the_flag_as_it_is(api: Any) -> None:
    FlagFactory(key="f", on=True)
    serves = {"key": "f", "serves": {"control": False, "green": True}}
    ExperimentFactory(key="e", flag=serves, conditions=asking_for("crowd"), running=True)
    before = Change.objects.latest_revision()

    data(api.patch("/v1/segments/crowd", {"userIds": ["lin"]}))
    assert written_since(before) == [("segment", "crowd", ""), ("experiment", "e", "production")]


def test_results__of_users_from_before_and_after__cover_both_phases(api: Any) -> None:
    create_segment(key="all", user_ids=[f"user-{at}" for at in range(20)], **WRITE)
    ExperimentFactory(key="both", conditions=asking_for("all"), running=True)
    for at in range(30):
        if at == 10:
            members = [f"user-{at}" for at in range(10, 30)]
            data(api.patch("/v1/segments/all", {"userIds": members}))
        data(api.post("/v1/experiments/both/variant", {"userId": f"user-{at}"}))

    assert [Exposure.objects.filter(phase=number).count() for number in (1, 2)] == [10, 20]
    found = data(api.get("/v1/experiments/both/results"))
    assert found["users"] == 30
    assert [(phase["users"], phase["isCovered"], phase["reason"]) for phase in found["phases"]] == [
        (10, True, ""),
        (20, True, "The segment all was changed."),
    ]


# --- every door ------------------------------------------------------------------------------------------------------


def test_admin__other_members__open_a_phase(running: Experiment) -> None:
    client, page = sign_in(), f"/admin/flags/segment/{get_segment('crowd').pk}/change/"
    assert client.post(page, filled(client, page, user_ids="lin")).status_code == 302
    assert reasons() == ["", WHY]


def imported(*keys: str, is_dry_run: bool = False) -> None:
    values = {"description": "Other", "conditions": [], "user_ids": ["lin"]}
    entries = [SegmentEntry(f"segments[{at}]", key, values) for at, key in enumerate(keys)]
    import_content(Content(segments=entries, flags=[]), is_dry_run=is_dry_run, **WRITE)


def test_import__of_several_segments__opens_one_phase_that_names_those_asked_for(running: Experiment) -> None:
    create_segment(key="family", **WRITE)
    create_segment(key="apart", **WRITE)
    ExperimentFactory(key="two", conditions=asking_for("family", "crowd"), running=True)
    before = Change.objects.latest_revision()

    imported("new", "crowd", "family", "apart", is_dry_run=True)
    assert written_since(before) == []
    imported("new", "crowd", "family", "apart")
    assert (reasons(), reasons("two")) == (["", WHY], ["", "The segments crowd, family were changed."])
    assert [key for kind, key, _ in written_since(before) if kind == "experiment"] == ["e", "two"]
    imported("new", "crowd", "family", "apart")
    assert len(reasons("two")) == 2


# --- no room for another phase ---------------------------------------------------------------------------------------


@pytest.fixture
def _full(running: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_phase, "MAX_PHASES", 1)


@pytest.mark.usefixtures("_full")
def test_segment__of_an_experiment_that_has_had_all_its_phases__is_refused_by_the_name_of_the_experiment(
    api: Any,
) -> None:
    before = Change.objects.latest_revision()
    found = error(api.patch("/v1/segments/crowd", {"userIds": ["lin"]}), 409, "experiment_locked")
    assert "The experiment e (production) uses the segment crowd" in found["message"]
    assert (written_since(before), get_segment("crowd").user_ids) == ([], ["ada"])
    data(api.patch("/v1/segments/crowd", {"description": "Other"}))


@pytest.mark.usefixtures("_full")
def test_admin__of_such_an_experiment__shows_the_refusal_on_the_form() -> None:
    client, page = sign_in(), f"/admin/flags/segment/{get_segment('crowd').pk}/change/"
    response = client.post(page, filled(client, page, user_ids="lin"))
    assert "The experiment e (production) uses" in str(errors_of(response))
    assert get_segment("crowd").user_ids == ["ada"]


@pytest.mark.usefixtures("_full")
def test_import__of_such_an_experiment__is_refused_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "flags.yaml"
    path.write_text("version: 1\nsegments:\n  - key: new\n  - key: crowd\n    userIds: [lin]\n")
    assert "The experiment e (production) uses" in refused("import_flags", str(path))[0]
    assert get_segment("crowd").user_ids == ["ada"]
