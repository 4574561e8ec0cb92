"""The commands that delete events: their output, and their effect on the database."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError

from config.database.locks import advisory_lock
from config.models import Environment
from events.models import Event
from events.removal import PURGE_LOCK
from tests.conftest import NOON
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> list[str]:
    """Run a command and return the lines that it wrote on stdout."""
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().splitlines()


def see(experiment: str, user: str, seconds: float = 0, **values: object) -> None:
    """Have a user see a variant of an experiment."""
    properties = {"experimentId": experiment, "variant": "green"}
    EventFactory(user_id=user, timestamp=NOON + timedelta(seconds=seconds), properties=properties, **values)


class TestEraseUser:
    def test_erase_user__no_environment_named__erases_from_all_and_says_what_went(self, production, staging):
        ExperimentFactory(key="e", running=True)
        see("e", "u")
        EventFactory(user_id="u", environment=staging)
        EventFactory(user_id="v")

        assert run("erase_user", "u", "--no-input") == [
            "production: erased 1 event and 1 exposure. The numbers of these experiments changed: e (running).",
            "staging: erased 1 event and 0 exposures.",
        ]
        assert Event.objects.get().user_id == "v"

    def test_erase_user__environment_named__erases_from_it_alone(self, production, staging):
        EventFactory(user_id="u")
        EventFactory(user_id="u", environment=staging)

        out = run("erase_user", "u", "--no-input", "--environment", "staging")
        assert out == ["staging: erased 1 event and 0 exposures."]
        assert Event.objects.get().environment == production

    @pytest.mark.parametrize("answer", ["yes", " YES "])
    def test_erase_user__confirmed__erases(self, production, monkeypatch, answer):
        asked = []
        monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
        EventFactory(user_id="u")
        run("erase_user", "u")
        assert asked == ["Erase 'u' from production, staging? This cannot be undone. Type yes: "]
        assert not Event.objects.exists()

    @pytest.mark.parametrize("answer", ["", "y", "no", None])
    def test_erase_user__not_confirmed__erases_nothing_and_fails(self, production, monkeypatch, answer):
        def reply(_: str) -> str:
            if answer is None:
                raise EOFError
            return answer

        monkeypatch.setattr("builtins.input", reply)
        EventFactory(user_id="u")
        with pytest.raises(CommandError, match=r"^Nothing was erased\.$"):
            run("erase_user", "u")
        assert Event.objects.count() == 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["u" * 201], "userId: Must be at most 200 characters."),
            ([""], "userId: Must not be empty."),
            (["u", "--environment", "moon"], "Unknown environment 'moon'; use one of: production, staging."),
        ],
    )
    def test_erase_user__unacceptable__is_refused_in_one_line(self, production, arguments, message):
        with pytest.raises(CommandError) as refusal:
            run("erase_user", *arguments, "--no-input")
        assert str(refusal.value) == message


class TestPurgeEvents:
    def test_purge_events__dry_run__tells_what_would_go_and_why_the_rest_stays_and_deletes_nothing(self, production):
        ExperimentFactory(key="checkout", running=True)
        EventFactory(timestamp=NOON - timedelta(days=30))
        see("checkout", "u", 0.5)
        EventFactory(timestamp=NOON + timedelta(days=1))

        assert run("purge_events", "--before", "2026-02-01", "--dry-run") == [
            "production: would delete 1 event from before 2026-01-03T12:00:00.000000Z.",
            "production: Experiment checkout keeps 1 older event, from 2026-01-03T12:00:00.000000Z on.",
            "staging: would delete 0 events from before 2026-02-01T00:00:00.000000Z.",
        ]
        assert Event.objects.count() == 3

    def test_purge_events__for_good__deletes_that_and_tells_the_same(self, production):
        ExperimentFactory(key="checkout", stopped=True)
        EventFactory(timestamp=NOON - timedelta(days=30))
        see("checkout", "u", 0.5)

        assert run("purge_events", "--before", "2026-02-01T00:00:00+01:00") == [
            "production: deleted 1 event from before 2026-01-03T12:00:00.000000Z.",
            "production: Experiment checkout keeps 1 older event, from 2026-01-03T12:00:00.000000Z on.",
            "staging: deleted 0 events from before 2026-01-31T23:00:00.000000Z.",
        ]
        assert Event.objects.get().user_id == "u"

    def test_purge_events__environment_named__purges_it_alone(self, production, staging):
        for environment in (production, staging):
            EventFactory(environment=environment)

        out = run("purge_events", "--before", "2026-02-01", "--environment", "staging")
        assert out == ["staging: deleted 1 event from before 2026-02-01T00:00:00.000000Z."]
        assert Event.objects.get().environment == production

    @time_machine.travel(NOON, tick=False)
    @pytest.mark.parametrize(
        ("before", "message"),
        [
            ("soon", "Cannot read 'soon'; --before takes a day such as 2026-01-31 or a time in ISO 8601."),
            ("2026-01-31T12:00:00Z", "--before must be at least one minute in the past."),
            ("2026-01-31T11:59:01Z", "--before must be at least one minute in the past."),
            ("2027-01-31", "--before must be at least one minute in the past."),
        ],
    )
    def test_purge_events__moment_that_is_none_or_too_late__is_refused(self, production, before, message):
        EventFactory(timestamp=NOON - timedelta(days=1))
        with pytest.raises(CommandError) as refusal:
            run("purge_events", "--before", before)
        assert str(refusal.value) == message
        assert Event.objects.count() == 1

    @time_machine.travel(NOON, tick=False)
    def test_purge_events__a_minute_ago__is_taken(self, production):
        EventFactory(timestamp=NOON - timedelta(days=1))
        run("purge_events", "--before", "2026-01-31T11:59:00Z")
        assert not Event.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_purge_events__while_another_is_under_way__is_refused_and_a_dry_run_is_not(self):
        EventFactory(environment=Environment.objects.default())
        with advisory_lock(PURGE_LOCK):
            with pytest.raises(CommandError, match=r"^Another purge is running, so this one did nothing\.$"):
                run("purge_events", "--before", "2026-02-01")
            assert Event.objects.count() == 1
            run("purge_events", "--before", "2026-02-01", "--dry-run")
        run("purge_events", "--before", "2026-02-01")
        assert not Event.objects.exists()
