"""The commands of kill switches: their output, and their effect on the database."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from config.models import Environment
from flags.changes.kill_switches import find_live
from flags.models import KillSwitch
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    """Run a command and return what it wrote on stdout and stderr."""
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def token(staging: Environment) -> str:
    FlagFactory(key="shop")
    out, err = run("create_kill_switch", "shop", "--name", "errors", "--environment", "staging")
    assert f"/v1/hooks/{KillSwitch.objects.get().pk}" in err
    return out.removesuffix("\n")


def test_create__token_on_stdout__is_that_of_the_kill_switch(token: str, staging: Environment) -> None:
    switch = KillSwitch.objects.get()
    assert find_live(str(switch.pk), token) == switch
    assert (switch.environment, switch.flags) == (staging, ["shop"])


def test_create__for_an_unknown_flag__says_so(db: None) -> None:
    with pytest.raises(CommandError, match="There is no flag nowhere"):
        run("create_kill_switch", "nowhere", "--name", "errors")


def test_list__kill_switches__have_no_token(token: str) -> None:
    out, _ = run("list_kill_switches")
    assert "errors" in out
    assert "live" in out
    assert token not in out


def test_revoke__twice__says_when(token: str) -> None:
    switch = KillSwitch.objects.get()
    assert run("revoke_kill_switch", str(switch.pk))[0].startswith(f"Kill switch {switch.pk} (errors) was revoked at ")
    assert "was already revoked at" in run("revoke_kill_switch", switch.prefix)[0]
    assert "revoked" in run("list_kill_switches")[0]
    assert find_live(str(switch.pk), token) is None


@pytest.mark.parametrize("text", ["01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59", "x"])
def test_revoke__unknown__says_how_to_find_it(db: None, text: str) -> None:
    with pytest.raises(CommandError, match="list_kill_switches"):
        run("revoke_kill_switch", text)
