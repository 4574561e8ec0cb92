"""Batches that report many users at once, some of whom were exposed before: stored as single reports would be."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures import reports
from experiments.models import Exposure, Origin
from tests.conftest import NOON
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

on_postgresql = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")

USERS = [f"user-{number}" for number in range(40)]
ODD = [
    '"',
    "\\",
    "\\N",
    "a\\",
    '{"a","b"}',
    "{}",
    ",",
    "NULL",
    "a\tb",
    "a\nb",
    "ä 🎈",
    "'",
    "%s",
    " ",
    "a,b",
    '\\"',
    "\\.",
]


def see(user: str, variant: str = "green", second: float = 1, key: str = "e", **properties: Any) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    about = {"experimentId": key, "variant": variant, **properties}
    return NewEvent(new_id(), user, "seen", moment, NOON + timedelta(days=1), about)


def stored() -> dict[tuple[str, str], tuple[Any, ...]]:
    """The exposures by experiment and user, with the seconds since noon."""
    rows = Exposure.objects.values_list(
        "experiment__key", "user_id", "variant", "exposed_at", "is_in_several_variants", "attributes", "origin", "phase"
    )
    return {(key, user): (variant, (at - NOON).total_seconds(), *others) for key, user, variant, at, *others in rows}


@pytest.mark.django_db
def test_record__users_with_any_characters__are_exposed_once(production: Environment) -> None:
    ExperimentFactory(key="e", running=True)
    for users in (ODD, [*ODD, *USERS], USERS, [*USERS, "last"]):
        record([see(user, **({"note": user} if user in ODD else {})) for user in users], production)

    assert stored() == {
        ("e", user): ("green", 1, False, {"note": user} if user in ODD else None, Origin.REPORTED, 1)
        for user in (*ODD, *USERS, "last")
    }


@pytest.mark.django_db
def test_record__some_users_were_exposed_before__only_what_the_reports_change_changes(production: Environment) -> None:
    ExperimentFactory(key="e", running=True)
    ExperimentFactory(key="f", running=True)
    record([see(user, second=10, plan="pro") for user in USERS[:30]], production)
    later, earlier, other, both, new = (USERS[start : start + 6] for start in (0, 6, 12, 18, 34))
    record(
        [
            *(see(user, second=11, plan="free") for user in later),
            *(see(user, second=9, plan="free") for user in earlier),
            *(see(user, "control", second=12) for user in other),
            *(see(user, second=second) for user in both for second in (10, 13)),
            *(see(user, second=5) for user in new),
            *(see(user, "control", second=6) for user in new),
            *(see(user, second=7, key="f") for user in later),
        ],
        production,
    )

    pro, reported = {"plan": "pro"}, (Origin.REPORTED, 1)
    assert stored() == {
        **{("e", user): ("green", 10, False, pro, *reported) for user in (*later, *both, *USERS[24:30])},
        **{("e", user): ("green", 9, False, {"plan": "free"}, *reported) for user in earlier},
        **{("e", user): ("green", 10, True, pro, *reported) for user in other},
        **{("e", user): ("green", 5, True, None, *reported) for user in new},
        **{("f", user): ("green", 7, False, None, *reported) for user in later},
    }


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(5))
def test_record__reports_in_batches_or_one_by_one__store_the_same(production: Environment, seed: int) -> None:
    ExperimentFactory(key="e", running=True)
    draw = random.Random(seed)
    events = [see(draw.choice(USERS), draw.choice(("control", "green")), draw.randrange(9)) for _ in range(150)]
    for start in range(0, len(events), 50):
        record(events[start : start + 50], production)
    together = stored()
    Event.objects.all().delete()
    Exposure.objects.all().delete()
    for event in events:
        record([event], production)

    assert stored() == together


def _meddle(monkeypatch: pytest.MonkeyPatch, threads: Threads, call: Callable[[], Any], *, before: bool) -> None:
    """Have another thread do something before or after a batch inserts the exposures that are new."""
    insert_new, done = reports.insert_new, []

    def insert_and_meddle(exposures: Any) -> int:
        inserted = 0 if before else insert_new(exposures)
        if not done:
            done.append(True)
            threads.start(call).result(SECONDS)
        return insert_new(exposures) if before else inserted

    monkeypatch.setattr(reports, "insert_new", insert_and_meddle)


def _record_all(events: Sequence[NewEvent]) -> None:
    record(events, Environment.objects.get(key="production"))


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_record__another_batch_exposes_some_of_the_users_meanwhile__each_is_exposed_once(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(key="e", running=True)
    others = [see(user, "control", second=3) for user in USERS[:20]]
    _meddle(monkeypatch, threads, partial(_record_all, others), before=True)
    _record_all([see(user, second=2) for user in USERS[10:]])

    reported = (None, Origin.REPORTED, 1)
    assert stored() == {
        **{("e", user): ("control", 3, False, *reported) for user in USERS[:10]},
        **{("e", user): ("green", 2, True, *reported) for user in USERS[10:20]},
        **{("e", user): ("green", 2, False, *reported) for user in USERS[20:]},
    }


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_record__user_of_a_batch_is_erased_meanwhile__is_exposed_by_the_batch(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(key="e", running=True)
    _record_all([see(user) for user in USERS])
    erase = partial(erase_user, USERS[0], Environment.objects.get(key="production"))
    _meddle(monkeypatch, threads, erase, before=False)
    _record_all([see(user, "control", second=2) for user in USERS])

    found = stored()
    assert found["e", USERS[0]] == ("control", 2, False, None, Origin.REPORTED, 1)
    assert {found["e", user][:3] for user in USERS[1:]} == {("green", 1, True)}
    assert Event.objects.filter(user_id=USERS[0]).count() == 1
