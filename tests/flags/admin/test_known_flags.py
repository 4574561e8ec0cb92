"""The flags that forms can name: few are in the page, many are asked for."""

from __future__ import annotations

import pytest
from django.urls import reverse

from config.models import Environment
from flags.admin import known_flags
from flags.changes.flag_changes import archive_flag
from flags.models import Flag
from tests.admin import AdminClient, sign_in
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

KNOWN = "/admin/flags/flag/known/"
COLOURS = [{"key": "blue", "value": "b"}, {"key": "red", "value": "r"}]


def found(text: str, client: AdminClient | None = None) -> list[str]:
    return list((client or sign_in()).get(KNOWN, {"text": text}).json())


@pytest.fixture
def _flags(production: Environment) -> None:
    for key in ("checkout", "new-checkout", "payments"):
        FlagFactory(key=key)


@pytest.mark.usefixtures("_flags")
def test_form__more_flags_than_a_page_may_have__says_where_to_ask(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in()
    for page in ["flags_flag_change", "experiments_experiment_change"]:
        for most, holds_flags in [(2, False), (3, True)]:
            with undone(subtests, page=page, most=most, holds_flags=holds_flags):
                monkeypatch.setattr(known_flags, "MAX_IN_A_PAGE", most)
                named = FlagFactory(key="a") if page == "flags_flag_change" else ExperimentFactory(key="e")
                text = client.get(reverse(f"admin:{page}", args=[named.pk])).content.decode()
                assert ('id="hy-flags"' in text, 'id="hy-flag-search"' in text) == (holds_flags, not holds_flags)
                assert (f'"{KNOWN}"' in text) is not holds_flags


@pytest.mark.usefixtures("_flags")
def test_known_flags__by_a_text__are_those_whose_key_contains_it() -> None:
    client = sign_in()
    for text, keys in [
        ("checkout", ["checkout", "new-checkout"]), ("new-checkout", ["new-checkout"]), ("PAY", ["payments"]),
        ("", ["checkout", "new-checkout", "payments"]), ("nothing", []), ("c" * 101, []), ("check\0out", []),
    ]:  # fmt: skip
        assert found(text, client) == keys, text


@pytest.mark.usefixtures("_flags")
def test_known_flags__more_than_are_answered__begin_with_the_one_of_that_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_flags, "MAX_FOUND", 1)
    FlagFactory(key="a-checkout")
    assert found("checkout") == ["checkout", "a-checkout"]


def test_known_flags__with_values__come_with_the_keys_of_their_variants(production: Environment) -> None:
    FlagFactory(key="colour", type="string", variants=COLOURS)
    FlagFactory(key="switch")
    assert sign_in().get(KNOWN).json() == {"colour": ["blue", "red"], "switch": []}


@pytest.mark.usefixtures("_flags")
def test_known_flags__archived__are_left_out(production: Environment) -> None:
    archive_flag(key="payments", environment=production, actor=ACTOR, now=NOON)
    assert found("pay") == []


@pytest.mark.usefixtures("_flags")
def test_known_flags__reader_of_something_else__are_refused() -> None:
    assert sign_in("config.view_change").get(KNOWN).status_code == 403
    assert Flag.objects.count() == 3
