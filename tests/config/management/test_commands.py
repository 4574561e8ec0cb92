"""The operator's commands: their output, and their effect on the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from config.access.api_keys import create_key, digest, revoke_key
from config.management import operator
from config.models import ApiKey, Change, Environment, Scope, Source
from config.serving.listening import listen
from config.timestamps import format_timestamp
from flags.changes.flag_changes import create_flag
from tests.conftest import ACTOR, NOON
from tests.transactions import case_undone

pytestmark = pytest.mark.django_db

PAST = NOON - timedelta(days=1)


def run(*arguments: str) -> tuple[str, str]:
    """Run a command and return what it wrote on stdout and stderr."""
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def make_key(environment: Environment, name: str = "shop", **options: Any) -> tuple[ApiKey, str]:
    return create_key(
        **{"name": name, "environment": environment, "scope": Scope.SERVER, "actor": ACTOR, "now": NOON, **options}
    )


class TestCreateKey:
    def test_create_key__default_environment__prints_the_secret_alone_on_stdout(self, production):
        out, err = run("create_key", "--name", "shop", "--scope", "client")
        key = ApiKey.objects.get()
        assert digest(out.removesuffix("\n")) == key.digest
        assert (key.name, key.environment, key.scope, key.expires_at) == ("shop", production, "client", None)
        assert str(key.pk) in err
        assert key.digest not in out + err

    def test_create_key__named_environment__belongs_to_it(self, staging):
        run("create_key", "--name", "shop", "--scope", "manage", "--environment", "staging")
        assert ApiKey.objects.get().environment == staging

    def test_create_key__any__is_in_the_change_log_with_the_operating_systems_user(self, monkeypatch):
        monkeypatch.setattr("getpass.getuser", lambda: "alice")
        run("create_key", "--name", "shop", "--scope", "client")
        change = Change.objects.first()
        assert (change.kind, change.actor, change.source) == ("api_key", "operator alice", Source.COMMAND)

    @pytest.mark.parametrize(
        ("expires", "expected"),
        [
            ("90d", NOON + timedelta(days=90)),
            ("2027-01-31T00:00:00Z", datetime(2027, 1, 31, tzinfo=UTC)),
            ("2027-01-31T02:00:00+02:00", datetime(2027, 1, 31, tzinfo=UTC)),
            ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ],
    )
    @time_machine.travel(NOON, tick=False)
    def test_create_key__with_expiry__expires_then(self, expires, expected):
        run("create_key", "--name", "shop", "--scope", "client", "--expires", expires)
        assert ApiKey.objects.get().expires_at == expected

    def test_create_key__unacceptable__is_refused_in_one_line(self, subtests):
        for changed, message in [
            ({"--environment": "moon"}, "Unknown environment 'moon'; use one of: production, staging."),
            ({"--scope": "root"}, "Unknown scope 'root'; use one of: client, server, manage."),
            ({"--expires": "2020-01-31T00:00:00Z"}, "expiresAt: Must be in the future."),
            ({"--expires": "0d"}, "expiresAt: Must be in the future."),
            ({"--expires": "soon"}, "Cannot read 'soon'; "),
            ({"--expires": "2027-02-30"}, "Cannot read '2027-02-30'; "),
            ({"--expires": "9" * 30 + "d"}, "Cannot read '999"),
            ({"--expires": "9" * 5000 + "d"}, "Cannot read '999"),
            ({"--name": " "}, "name: Must not be empty; say what the key is for"),
            ({"--name": "x" * 201}, "name: Must be at most 200 characters."),
        ]:
            with subtests.test(changed=changed), case_undone():
                arguments = {"--name": "shop", "--scope": "client", **changed}
                revision = Change.objects.latest_revision()
                with pytest.raises(CommandError) as refusal:
                    run("create_key", *(word for pair in arguments.items() for word in pair))
                assert str(refusal.value).startswith(message)
                assert "\n" not in str(refusal.value)
                assert not ApiKey.objects.exists()
                assert Change.objects.latest_revision() == revision


class TestListKeys:
    def test_list_keys__keys_of_every_state__shows_each_without_its_secret(self, production, staging):
        live, live_secret = make_key(production, "live")
        expired, _ = make_key(staging, "expired", expires_at=live.created_at + timedelta(days=1))
        revoked, _ = make_key(production, "revoked", scope=Scope.CLIENT)
        revoke_key(revoked, actor=ACTOR, now=NOON)
        with time_machine.travel(live.created_at + timedelta(days=2), tick=False):
            out, _ = run("list_keys")
        made = [format_timestamp(key.created_at) for key in (live, expired, revoked)]
        expiry = format_timestamp(expired.expires_at)
        assert sorted(row.split() for row in out.splitlines()) == sorted(
            [
                ["ID", "PREFIX", "NAME", "ENVIRONMENT", "SCOPE", "COMMON", "CREATED", "EXPIRES", "STATE"],
                [str(live.pk), live.prefix, "live", "production", "server", "no", made[0], "never", "live"],
                [str(expired.pk), expired.prefix, "expired", "staging", "server", "no", made[1], expiry, "expired"],
                [str(revoked.pk), revoked.prefix, "revoked", "production", "client", "no", made[2], "never", "revoked"],
            ]
        )
        assert live_secret not in out
        assert live.digest not in out

    def test_list_keys__environment__shows_its_keys_alone(self, production, staging):
        make_key(production, "mine")
        make_key(staging, "theirs")
        out, _ = run("list_keys", "--environment", "staging")
        assert "theirs" in out
        assert "mine" not in out

    def test_list_keys__unknown_environment__is_refused(self):
        with pytest.raises(CommandError, match=r"^Unknown environment 'moon'; use one of: production, staging\.$"):
            run("list_keys", "--environment", "moon")

    def test_list_keys__many_keys__asks_the_database_once(self, production, staging, django_assert_num_queries):
        for environment in (production, staging, production):
            make_key(environment)
        with django_assert_num_queries(1):
            run("list_keys")


class TestRotateKey:
    @time_machine.travel(NOON, tick=False)
    def test_rotate_key__live_key__has_a_successor_with_the_same_rights_and_expires(self, production):
        old, _ = make_key(production, scope=Scope.MANAGE, common=True, now=PAST)
        out, err = run("rotate_key", old.prefix, "--overlap", "3")
        new = ApiKey.objects.exclude(pk=old.pk).get()
        assert digest(out.removesuffix("\n")) == new.digest
        assert (new.name, new.environment, new.scope, new.may_change_common) == ("shop", production, "manage", True)
        assert (new.expires_at, ApiKey.objects.get(pk=old.pk).expires_at) == (None, NOON + timedelta(days=3))
        assert str(new.pk) in err
        assert [change.action for change in Change.objects.filter(kind="api_key")[:2]] == ["changed", "created"]

    @time_machine.travel(NOON, tick=False)
    def test_rotate_key__that_expires_before__keeps_its_expiry(self, production):
        old, _ = make_key(production, expires_at=NOON + timedelta(days=1), now=PAST)
        run("rotate_key", old.prefix)
        assert ApiKey.objects.get(pk=old.pk).expires_at == NOON + timedelta(days=1)

    def test_rotate_key__revoked__is_refused(self, production):
        key = revoke_key(make_key(production)[0], actor=ACTOR, now=NOON)
        with pytest.raises(CommandError, match="is expired or revoked; create a new one instead"):
            run("rotate_key", key.prefix)
        assert ApiKey.objects.count() == 1

    @pytest.mark.parametrize("days", ["0", "-1", "366"])
    def test_rotate_key__overlap_out_of_range__is_refused(self, production, days):
        with pytest.raises(CommandError, match="--overlap must be 1 to 365"):
            run("rotate_key", make_key(production)[0].prefix, f"--overlap={days}")


class TestRevokeKey:
    @pytest.mark.parametrize("attribute", ["pk", "prefix"])
    def test_revoke_key__by_id_or_prefix__revokes_that_key_alone(self, production, attribute):
        key, _ = make_key(production)
        other, _ = make_key(production)
        out, _ = run("revoke_key", str(getattr(key, attribute)))
        assert out.startswith(f"API key {key.pk} (shop) was revoked at ")
        assert list(ApiKey.objects.filter(revoked_at=None)) == [other]
        change = Change.objects.first()
        assert (change.object_id, change.source) == (str(key.pk), Source.COMMAND)

    def test_revoke_key__revoked_already__changes_nothing_and_says_so(self, production):
        key = revoke_key(make_key(production)[0], actor=ACTOR, now=NOON)
        revision = Change.objects.latest_revision()
        out, _ = run("revoke_key", key.prefix)
        assert out == f"API key {key.pk} (shop) was already revoked at {format_timestamp(key.revoked_at)}.\n"
        assert Change.objects.latest_revision() == revision

    @pytest.mark.parametrize("unknown", ["hyd_c_nobody", "", "shop", "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"])
    def test_revoke_key__unknown__is_refused(self, production, unknown):
        make_key(production)
        with pytest.raises(CommandError, match=r"^No API key has the id or prefix "):
            run("revoke_key", unknown)
        assert ApiKey.objects.filter(revoked_at=None).count() == 1

    def test_revoke_key__prefix_of_two_keys__is_refused_and_names_them(self, production):
        keys = [make_key(production)[0] for _ in range(2)]
        ApiKey.objects.update(prefix="hyd_s_sameab")
        with pytest.raises(CommandError, match=r"^2 API keys have the prefix 'hyd_s_sameab'; ") as refusal:
            run("revoke_key", "hyd_s_sameab")
        assert all(str(key.pk) in str(refusal.value) for key in keys)
        assert ApiKey.objects.filter(revoked_at=None).count() == 2


class TestOperator:
    @pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found"), OSError("No username set")])
    def test_actor__user_without_a_name__is_named_by_number(self, monkeypatch, error):
        def raise_error() -> str:
            raise error

        monkeypatch.setattr("getpass.getuser", raise_error)
        monkeypatch.setattr("os.getuid", lambda: 1000)
        assert operator.actor().name == "operator 1000"


class TestSetup:
    @pytest.fixture(autouse=True)
    def _flag(self, production):
        """Something of the operator's own, so that setup leaves the demo out."""
        create_flag(key="mine", environment=production, actor=ACTOR, now=PAST)

    def test_setup__no_user__makes_an_admin_whose_printed_password_signs_in(self):
        out, _ = run("setup")
        line = next(line for line in out.splitlines() if line.startswith("Sign in at /admin/ as admin "))
        user = authenticate(username="admin", password=line.split()[-1])
        assert user is not None
        assert user.is_superuser

    def test_setup__some_user__makes_none(self):
        User.objects.create_user("alice")
        out, _ = run("setup")
        assert "password" not in out
        assert list(User.objects.values_list("username", flat=True)) == ["alice"]

    def test_setup__second_time__changes_nothing_and_says_one_line(self):
        run("setup")
        before = (Change.objects.latest_revision(), User.objects.get().password)
        out, err = run("setup")
        assert (Change.objects.latest_revision(), User.objects.get().password) == before
        assert out.startswith("The database is ready: ")
        assert (out.count("\n"), err) == (1, "")

    def test_setup__port_that_is_taken__says_so_and_sets_nothing_up(self):
        [taken] = listen("127.0.0.1", 0, count=1)
        with taken, pytest.raises(CommandError, match=r"port \d+: .*Nothing was set up; name another port"):
            run("setup", "--port", str(taken.getsockname()[1]))
        assert not User.objects.exists()
        run("setup", "--port", "0")
        assert User.objects.exists()

    def test_setup__database_in_use__leaves_it_without_demo_data(self):
        run("setup")
        assert list(Change.objects.filter(kind="flag").values_list("key", flat=True)) == ["mine"]
