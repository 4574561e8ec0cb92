"""`manage.py import_exposures`: what is stored, what is refused, and that importing again changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from io import StringIO
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from config.timestamps import format_timestamp
from events.imports import importing
from events.recording import NewEvent, new_id, record
from experiments.api import exposure_imports
from experiments.exposures.assignment import get_variant, get_variants
from experiments.exposures.assignment import record_for_flag as record_of_flag
from experiments.exposures.recording import assign, record_imported
from experiments.models import Experiment, Exposure
from flags.engine.bucketing import compile_split
from tests.conftest import NOON
from tests.events.imports.importing import run, write
from tests.experiments.calls import asking
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LATER = NOON + timedelta(days=1)


@pytest.fixture
def experiment() -> Experiment:
    """Started at noon."""
    return ExperimentFactory(key="e", running=True)


def line(user_id: str = "u", variant: str = "green", hours: float = 1, **values: Any) -> str:
    moment = (NOON + hours * HOUR).isoformat()
    return json.dumps({"userId": user_id, "variant": variant, "exposedAt": moment, **values})


def load(folder: Path, *lines: str, name: str = "exposures.ndjson", options: tuple[str, ...] = ()) -> str:
    return run("import_exposures", "e", write(folder, name, *lines), *options, at=LATER)[0]


def stored() -> list[tuple[str, str, float, str, bool]]:
    rows = Exposure.objects.order_by("user_id")
    return [
        (entry.user_id, entry.variant, (entry.exposed_at - NOON) / HOUR, entry.origin, entry.is_in_several_variants)
        for entry in rows
    ]


@pytest.mark.usefixtures("experiment")
def test_import__table__stores_exposures_with_what_is_known(tmp_path: Path) -> None:
    table = [
        "userId,variant,exposedAt,attributes.country,attributes.age",
        "u,green,2026-01-31T13:00:00Z,CH,42",
        "v,control,2026-01-31T12:00:00Z,,",
    ]
    assert load(tmp_path, *table, name="e.csv") == "Imported 2 exposures into e; 2 users were new.\n"
    assert stored() == [("u", "green", 1, "imported", False), ("v", "control", 0, "imported", False)]
    known = dict(Exposure.objects.values_list("user_id", "attributes"))
    assert known == {"u": {"country": "CH", "age": 42}, "v": None}


@pytest.mark.usefixtures("experiment")
def test_import__same_file_again__changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", 2)
    lines = [line("u"), line("v"), line("w"), line("u", hours=2)]
    load(tmp_path, *lines)
    before = list(Exposure.objects.order_by("user_id").values())
    assert load(tmp_path, *lines) == "Imported 4 exposures into e; 0 users were new.\n"
    assert list(Exposure.objects.order_by("user_id").values()) == before


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("at_once", [1, 5000])
def test_import__several_of_one_user__counts_the_earliest_in_any_order(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...], at_once: int
) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", at_once)
    lines = [line(hours=3), line(variant="control", hours=2), line(hours=2.5)]
    load(tmp_path, *(lines[at] for at in order))
    assert stored() == [("u", "control", 2, "imported", True)]


def test_import__user_who_reported_later__is_imported(experiment, production, tmp_path: Path) -> None:
    properties = {"experimentId": "e", "variant": "control"}
    at = NOON + 3 * HOUR
    record([NewEvent(new_id(), "u", "seen", at, at, properties)], production)
    load(tmp_path, line(hours=2))
    assert stored() == [("u", "green", 2, "imported", True)]


@pytest.mark.parametrize("is_reported_first", [True, False])
@pytest.mark.parametrize(
    ("reported_at", "kept"), [(1, ("control", 1, "reported", True)), (3, ("green", 2, "imported", True))]
)
def test_import__beside_reports__counts_the_earliest_in_either_order(
    experiment, production, tmp_path: Path, is_reported_first: bool, reported_at: int, kept: tuple[Any, ...]
) -> None:
    at = NOON + reported_at * HOUR
    seen = NewEvent(new_id(), "u", "seen", at, at, {"experimentId": "e", "variant": "control"})
    if is_reported_first:
        record([seen], production)
    load(tmp_path, line(hours=2))
    record([seen], production)
    assert stored() == [("u", *kept)]


def test_import__user_who_was_assigned__keeps_that_variant(experiment: Experiment, tmp_path: Path) -> None:
    assign(experiment.pk, "u", "control", NOON + 2 * HOUR)
    assign(experiment.pk, "v", "green", NOON + 2 * HOUR)
    load(tmp_path, line("u", hours=1), line("v", hours=1))
    assert stored() == [("u", "control", 2, "assigned", True), ("v", "green", 1, "told", False)]


@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_import__and_an_earlier_report_of_who_was_assigned_in_a_later_phase__count_alike_in_any_order(
    experiment: Experiment, production, tmp_path: Path, order: tuple[int, ...]
) -> None:
    later = {**experiment.phases[0], "startedAt": format_timestamp(NOON + 3 * HOUR)}
    Experiment.objects.update(phases=[*experiment.phases, later])
    assign(experiment.pk, "u", "green", NOON + 4 * HOUR, phase=2)
    at = NOON + HOUR
    seen = NewEvent(new_id(), "u", "seen", at, at, {"experimentId": "e", "variant": "green"})
    steps = [lambda: load(tmp_path, line(hours=2)), lambda: record([seen], production)]
    for step in order:
        steps[step]()

    assert stored() == [("u", "green", 1, "told", False)]
    assert Exposure.objects.get().phase == 1


@pytest.mark.usefixtures("experiment")
def test_import__attributes_of_any_name__are_kept(tmp_path: Path) -> None:
    load(tmp_path, line(attributes={"currency": "CHF", "revenue": 3, "variant": "x", "plan": "pro"}))
    assert Exposure.objects.get().attributes == {"currency": "CHF", "revenue": 3, "variant": "x", "plan": "pro"}


@pytest.mark.usefixtures("experiment")
def test_import__then_asked_for__is_the_imported_variant(production, tmp_path: Path) -> None:
    users = [f"user-{number}" for number in range(10)]
    load(tmp_path, *(line(user) for user in users))
    variants = {get_variant(key="e", environment=production, user_id=user, now=LATER).variant for user in users}
    assert variants == {"green"}


@pytest.mark.usefixtures("experiment")
@pytest.mark.parametrize("is_told_by_flag", [False, True])
def test_import__user_who_got_an_imported_variant__keeps_it(production, tmp_path: Path, is_told_by_flag: bool) -> None:
    load(tmp_path, line(variant="control", hours=3))
    if is_told_by_flag:
        assert record_of_flag(production, "e", "control", asking("u", LATER)) == "control"
    else:
        assert get_variant(key="e", environment=production, user_id="u", now=LATER).variant == "control"
    load(tmp_path, line(variant="green", hours=2))

    assert get_variant(key="e", environment=production, user_id="u", now=LATER).variant == "control"
    assert stored() == [("u", "control", 3, "told", True)]


@pytest.mark.usefixtures("experiment")
def test_import__user_whom_a_look_without_record_was_of__may_get_an_earlier_variant(production, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"environment": production, "user_id": "u", "now": LATER, "attributes": {}}
    load(tmp_path, line(variant="control", hours=3))
    assert get_variants(**asked, record=False)["e"].variant == "control"
    load(tmp_path, line(variant="green", hours=2))
    assert get_variants(**asked, record=True)["e"].variant == "green"
    assert stored() == [("u", "green", 2, "told", True)]


def test_import__exposures_of_two_phases__belong_to_that_of_their_moment(
    experiment: Experiment, tmp_path: Path
) -> None:
    second = {**experiment.phases[0], "startedAt": (NOON + 2 * HOUR).isoformat()}
    Experiment.objects.update(phases=[*experiment.phases, second])
    load(tmp_path, line("u", hours=1), line("v", hours=2))
    assert dict(Exposure.objects.values_list("user_id", "phase")) == {"u": 1, "v": 2}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (line(variant="purple"), "variant: Must be one of the experiment's variants: control, green."),
        (line(hours=-0.1), "exposedAt: Is before the start of the experiment, 2026-01-31T12:00:00.000000Z."),
        (line(hours=6), "exposedAt: Is after the stop of the experiment, 2026-01-31T17:00:00.000000Z."),
        (line("forced"), "userId: Is in forcedVariants, so the user is not in the results."),
        (line(""), "userId: Must not be empty."),
        (line(exposedAt="soon"), "exposedAt: "),
        (line(exposedAt=5), "exposedAt: "),
        (line(attributes=[]), "attributes: "),
        (line(colour="red"), "colour: "),
        ('{"userId":"u"}', "variant: "),
        ("{", "It is not valid JSON ("),
        ('{"userId":"a\\u0000b"}', "userId: Must not contain the character U+0000."),
    ],
)
def test_import__line_that_cannot_be__stops_it_before_anything_is_written(
    experiment: Experiment, tmp_path: Path, bad: str, message: str
) -> None:
    Experiment.objects.update(status="stopped", stopped_at=NOON + 5 * HOUR, forced_variants={"forced": "green"})
    with pytest.raises(CommandError) as refusal:
        load(tmp_path, line("good"), bad)
    error, end = str(refusal.value).splitlines()
    assert error.startswith(f"line 2: {message}")
    assert end == "Nothing was imported."
    assert stored() == []

    load(tmp_path, line("good"), bad, options=("--skip-invalid",))
    assert [user_id for user_id, *_ in stored()] == ["good"]


@pytest.mark.usefixtures("experiment")
def test_import__exposure_in_the_future__is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="exposedAt: Is in the future"):
        load(tmp_path, line(hours=25))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"status": "draft", "started_at": None}, "The experiment e is a draft; start it first, with --at"),
        (
            {"status": "stopped", "stopped_at": LATER, "frozen_at": LATER},
            "The results of e are frozen; they take no more exposures.",
        ),
    ],
)
def test_import__experiment_that_takes_no_exposures__is_refused(
    experiment: Experiment, tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(**columns)
    with pytest.raises(CommandError) as refusal:
        load(tmp_path, line())
    assert str(refusal.value).startswith(message)
    assert stored() == []


@pytest.mark.usefixtures("experiment")
def test_import__one_line__is_reported_as_one(tmp_path: Path) -> None:
    assert load(tmp_path, line()) == "Imported 1 exposure into e; 1 user was new.\n"


@pytest.mark.usefixtures("experiment")
@pytest.mark.parametrize(
    ("columns", "kept", "messages"),
    [
        (
            {"forced_variants": {"w": "green"}},
            {"u", "v"},
            ["line 3: userId: Is in forcedVariants, so the user is not in the results."],
        ),
        (
            {"status": "stopped", "stopped_at": NOON + 2 * HOUR},
            {"u", "v"},
            ["line 3: exposedAt: Is after the stop of the experiment, 2026-01-31T14:00:00.000000Z."],
        ),
        (
            {"status": "stopped", "stopped_at": LATER, "frozen_at": LATER},
            {"u"},
            [f"line {number}: The results of e are frozen; they take no more exposures." for number in (2, 3)],
        ),
    ],
)
def test_import__experiment_changed_meanwhile__leaves_out_what_is_no_exposure_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], kept: set[str], messages: list[str]
) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", 1)

    def import_and_change(experiment: Experiment, imported: Iterable[exposure_imports.Exposed]) -> int:
        number = record_imported(experiment, imported)
        Experiment.objects.update(**columns)
        return number

    monkeypatch.setattr(exposure_imports, "record_imported", import_and_change)
    file = write(tmp_path, "e.ndjson", line("u"), line("v"), line("w", hours=3))
    out = StringIO()
    with pytest.raises(CommandError) as refusal, time_machine.travel(LATER, tick=False):
        call_command("import_exposures", "e", file, stdout=out, stderr=StringIO())
    assert str(refusal.value).splitlines() == [
        "These were not imported, because the experiment was changed during the import:",
        *messages,
    ]
    imported = {1: "1 exposure into e; 1 user was", 2: "2 exposures into e; 2 users were"}[len(kept)]
    assert out.getvalue() == f"Imported {imported} new.\n"
    assert {user_id for user_id, *_ in stored()} == kept


# --- what looks wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(["control", "green"])))
@pytest.mark.parametrize("at_once", [1, 5000])
def test_import__both_variants_at_one_instant__counts_what_the_hash_gives(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...], at_once: int
) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", at_once)
    split = compile_split([("control", 50), ("green", 50)], "e")
    users = [f"u{number}" for number in range(20)]
    answer = load(tmp_path, *(line(user, variant) for variant in order for user in users))
    assert stored() == [(user, split(user), 1, "imported", True) for user in sorted(users)]
    assert answer.splitlines()[1:] == [
        "This looks wrong:",
        "- 20 users of e saw several variants at the same instant. Each counts for the variant that the hash gives the "
        "user, if it is one of these, and as a user in several variants.",
    ]


def test_report__both_variants_at_one_instant__counts_what_the_hash_gives(experiment: Experiment, production) -> None:
    split, at = compile_split([("control", 50), ("green", 50)], "e"), NOON + HOUR
    for number in range(20):
        for variant in ("green", "control"):
            report = {"experimentId": "e", "variant": variant}
            record([NewEvent(new_id(), f"u{number}", "seen", at, at, report)], production)
    assert all(variant == split(user) for user, variant, *_ in stored())


def test_import__two_of_three_variants_at_one_instant__do_not_all_count_for_the_first(tmp_path: Path) -> None:
    ExperimentFactory(key="e", running=True, variants=[{"key": key, "weight": 1} for key in ("a", "b", "c")])
    lines = [line(f"u{number}", variant) for variant in ("a", "b") for number in range(300)]
    load(tmp_path, *lines)
    variants = [variant for _, variant, *_ in stored()]
    assert {*variants} == {"a", "b"}
    assert 120 < variants.count("a") < 180
    before = stored()
    load(tmp_path, *reversed(lines))
    assert stored() == before


@pytest.mark.usefixtures("experiment")
def test_import__odd_ids_and_attributes__are_named(tmp_path: Path) -> None:
    answer = load(tmp_path, line("ada", attributes={"age": "+3"}), line("Ada "))
    assert answer.splitlines()[1:] == [
        "This looks wrong:",
        '- attribute age: 1 text in place of numbers, such as "+3" in line 1. A text is never added up, and meets no '
        "comparison with a number.",
        '- 1 user id differs from another one in blanks or case alone, such as "ada" and "Ada ". They count as '
        "different users.",
    ]


def bought(*users: str, name: str = "purchase") -> list[str]:
    return [json.dumps({"event": name, "userId": user, "timestamp": (NOON + 2 * HOUR).isoformat()}) for user in users]


@pytest.mark.parametrize(
    ("exposed", "buyers", "design", "reason"),
    [
        (["ada"], ["ada", "Ada\u00a0", "eve"], {}, "The ids of 1 of these users differ from those of exposed users in"),
        (["ada"], ["1", "2"], {}, "No user with such an event was exposed, so events and exposures probably have"),
        (["ada"], ["ada", "eve", "bob"], {"percentage": 50}, "The experiment admits a part of the users, and the"),
        (["ada"], ["ada", "eve", "bob"], {}, "The application may not ask for the variant of these users, or not"),
    ],
)
def test_import__conversions_without_exposure__are_counted_with_the_likeliest_reason(
    tmp_path: Path, exposed: list[str], buyers: list[str], design: dict[str, Any], reason: str
) -> None:
    ExperimentFactory(key="e", running=True, metrics=["purchase"], **design)
    ExperimentFactory(key="other", running=True, metrics=["look"])
    load(tmp_path, *map(line, exposed))
    file = write(tmp_path, "events.ndjson", *bought(*buyers), *bought("eve", name="pause"))
    _, heading, *warnings = run("import_events", file, at=LATER)[0].splitlines()
    assert heading == "This looks wrong:"
    assert warnings[-1].startswith(
        f"- 2 events of the metrics of e, by 2 users who were never exposed, do not count. {reason}"
    )
    assert run("import_events", file, at=LATER + HOUR)[0].count("never exposed") == 0, "nothing was stored"
    assert warnings[-1] in load(tmp_path, *map(line, exposed)).splitlines()


def test_import__conversions_before_the_start_or_of_a_tester__are_not_counted(tmp_path: Path) -> None:
    ExperimentFactory(key="e", started_at=NOON + 3 * HOUR, metrics=["purchase"])
    ExperimentFactory(key="f", running=True, metrics=["purchase"], forced_variants={"eve": "green"})
    answer = run("import_events", write(tmp_path, "events.ndjson", *bought("eve")), at=LATER)[0]
    assert answer == "Imported 1 event; 0 were already stored.\n"
