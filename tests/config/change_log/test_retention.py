"""What is deleted of an old change log, and that every later question about it has the same answer as before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.change_log.retention import delete_old_changes
from config.errors import ValidationFailed
from config.models import Change
from flags.changes.flag_changes import delete_flag, update_flag
from flags.changes.past import configuration_at
from flags.changes.segment_changes import change_members, create_segment, update_segment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

NOW = NOON + timedelta(days=400)


@pytest.fixture(autouse=True)
def _days(settings: Any, db: None) -> None:
    settings.CHANGE_RETENTION_DAYS = 100
    Change.objects.update(at=NOON - timedelta(days=1))  # those of a new database are of today, and times never go back


def describe(flag: Any, environment: Any, day: int) -> None:
    changes = {"description": f"day {day}"}
    update_flag(key=flag.key, environment=environment, changes=changes, actor=ACTOR, now=NOON + timedelta(days=day))


def days_of(kind: str) -> list[int]:
    moments = Change.objects.filter(kind=kind).order_by("revision").values_list("at", flat=True)
    return [(at - NOON).days for at in moments]


def test_retention__old_entries__all_but_the_newest_of_each_flag_are_deleted(production: Any) -> None:
    flag, other = FlagFactory(), FlagFactory()
    for day in (10, 20, 290, 310, 320):
        describe(flag, production, day)
    assert delete_old_changes(NOW) == "deleted 3 superseded entries from before 2026-11-27"
    assert [day for day in days_of("flag") if day > 0] == [290, 310, 320]
    kept = Change.objects.filter(kind="flag", object_id=str(flag.pk)).as_of(NOON + timedelta(days=305)).first()
    assert kept.after["description"] == "day 290"
    assert Change.objects.filter(kind="flag", object_id=str(other.pk)).count() == 1
    assert delete_old_changes(NOW).startswith("deleted 0 ")


def test_retention__deleted_flag__keeps_its_deletion(production: Any) -> None:
    flag = FlagFactory()
    describe(flag, production, 10)
    delete_flag(key=flag.key, environment=production, actor=ACTOR, now=NOON + timedelta(days=20))
    delete_old_changes(NOW)
    [left] = Change.objects.filter(kind="flag")
    assert (left.action, left.before["description"]) == ("deleted", "day 10")


def test_retention__first_entry_of_the_log__stays() -> None:
    first = Change.objects.order_by("revision").first()
    delete_old_changes(NOW)
    assert Change.objects.order_by("revision").first() == first


def test_retention__experiment_that_is_not_frozen__keeps_all_since_its_start(production: Any) -> None:
    flag = FlagFactory()
    for day in (10, 20, 40, 50, 60):
        describe(flag, production, day)
    experiment = ExperimentFactory(running=True)
    experiment.started_at = NOON + timedelta(days=45)
    experiment.save()
    entries = Change.objects.filter(kind="experiment").count()
    delete_old_changes(NOW)
    assert [day for day in days_of("flag") if day > 0] == [40, 50, 60]
    assert Change.objects.filter(kind="experiment").count() == entries


def test_retention__members_of_a_segment__stay_until_its_whole_entry_is_old() -> None:
    create_segment(key="s", user_ids=["ada"], actor=ACTOR, now=NOON)
    for day in (10, 20):
        change_members(key="s", add=[f"u{day}"], remove=[], actor=ACTOR, now=NOON + timedelta(days=day))
    delete_old_changes(NOW)
    assert days_of("segment_members") == [10, 20]
    update_segment(key="s", changes={"description": "x"}, actor=ACTOR, now=NOON + timedelta(days=30))
    delete_old_changes(NOW)
    assert (days_of("segment"), days_of("segment_members")) == ([30], [])


def test_retention__time_of_a_deleted_entry__is_refused_and_not_answered_by_an_older_one(production: Any) -> None:
    create_segment(key="s", actor=ACTOR, now=NOON)
    changed, still = FlagFactory(), FlagFactory()
    of_segment = FlagFactory(rules=[{"type": "segment", "segment": "s"}])
    for day in (10, 20, 30, 40, 290, 310):
        if day in (30, 40):
            changes = {"description": f"day {day}"}
            update_segment(key="s", changes=changes, actor=ACTOR, now=NOON + timedelta(days=day))
        else:
            describe(changed, production, day)
    delete_old_changes(NOW)
    with time_machine.travel(NOW, tick=False):
        for flag, day in ((changed, 15), (changed, 25), (of_segment, 35)):
            with pytest.raises(ValidationFailed, match=r"^at: Must be 2026-11-27T12:00:00\.000000Z or later"):
                configuration_at(flag.key, "production", NOON + timedelta(days=day))
        for flag, day in ((changed, 290), (changed, 305), (still, 15), (of_segment, 45)):
            configuration, _ = configuration_at(flag.key, "production", NOON + timedelta(days=day))
            assert flag.key in configuration.flags


def test_retention__not_set__keeps_all(settings: Any, production: Any) -> None:
    settings.CHANGE_RETENTION_DAYS = None
    describe(FlagFactory(), production, 10)
    before = Change.objects.count()
    assert delete_old_changes(NOW) == "all are kept"
    assert Change.objects.count() == before
