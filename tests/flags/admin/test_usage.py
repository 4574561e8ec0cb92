"""The usage of flags in the admin: the panel of a flag, its staleness, and the list of stale flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.urls import reverse

from config.models import Environment
from flags.admin.usage import HEIGHT, Panel, usage_panel
from flags.models import Flag, LastUse, Usage
from flags.usage.staleness import with_stale_reasons
from tests.admin import sign_in, text_of
from tests.conftest import NOON
from tests.factories import FlagFactory

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
START = NOON + 1000 * DAY  # after the environments of the database were made
NOW = START + 60 * DAY
COLOURS = [{"key": f"colour-{at}", "value": at} for at in range(6)]


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def count(flag: str, environment: Environment, days_ago: float = 0, **counts: int) -> None:
    at = NOW - days_ago * DAY
    for outcome, number in counts.items():
        which = {"environment": environment, "flag_key": flag, "outcome": outcome.replace("_", "-")}
        Usage.objects.create(**which, hour=at, count=number)
        LastUse.objects.get_or_create(**which, defaults={"hour": at})


def panel_of(key: str, environment: Environment) -> Panel:
    judged = with_stale_reasons(Flag.objects.in_environment(environment), environment, NOW)
    return usage_panel(judged.get(key=key), environment, NOW)


def page_of(key: str, *permissions: str) -> Any:
    return sign_in(*permissions).get(reverse("admin:flags_flag_change", args=[Flag.objects.get(key=key).pk]))


# --- the panel -------------------------------------------------------------------------------------------------------


def test_panel__a_month__is_a_bar_for_each_day_as_high_as_it_was_busy(production: Environment) -> None:
    FlagFactory(key="f", now=START)
    count("f", production, 0, on=30, off=10)
    count("f", production, HOUR / DAY, on=30, off=10)
    count("f", production, 30, on=20)
    count("f", production, 31, on=1000)
    panel = panel_of("f", production)
    assert (panel.total, panel.busiest, len(panel.days)) == ("100", "80", 31)
    assert [(row.outcome.key, row.count, row.share, row.tone) for row in panel.rows] == [
        ("on", "80", "80 %", "on"),
        ("off", "20", "20 %", "off"),
    ]
    first, *between, last = panel.days
    assert [(part.top, part.height, part.tone) for part in last.parts] == [(12, 36, "on"), (0, 12, "off")]
    assert [(part.top, part.height) for part in first.parts] == [(HEIGHT - 12, 12)]
    assert not any(day.parts for day in between)
    assert (first.title, last.title) == ("26 Nov 2028: on 20", "26 Dec 2028: on 60, off 20")
    assert between[0].title == "27 Nov 2028: not evaluated"


def test_panel__many_variants__have_colours_of_their_own_as_far_as_these_go(production: Environment) -> None:
    FlagFactory(key="f", now=START, type="number", variants=COLOURS)
    count("f", production, **{f"colour_{at}": 2000 - at for at in range(5)}, colour_5=1)
    rows = panel_of("f", production).rows
    assert [row.tone for row in rows] == ["0", "1", "2", "3", "rest", "rest"]
    assert [row.share for row in rows] == ["20 %"] * 5 + ["< 1 %"]


def test_panel__nearly_one_outcome_alone__does_not_pass_for_it(production: Environment) -> None:
    FlagFactory(key="f", now=START)
    count("f", production, on=999, off=1)
    assert [row.share for row in panel_of("f", production).rows] == ["> 99 %", "< 1 %"]


@pytest.mark.parametrize("permissions", [[], ["flags.view_flag"]])
def test_page__of_a_flag_that_is_used__shows_how_much(production: Environment, permissions: list[str]) -> None:
    FlagFactory(key="f", on=True, now=START)
    count("f", production, 1, on=1500, off=500)
    text = text_of(page_of("f", *permissions))
    assert "Usage in Production 2,000 evaluations in 30 days Last evaluated in the hour from 25 Dec 2028, 12:00" in text
    assert "on 75 % 1,500 off 25 % 500" in text
    assert "up to 2,000 a day" in text


def test_page__of_a_flag_used_once__says_so_in_the_singular(production: Environment) -> None:
    FlagFactory(key="f", now=START)
    count("f", production, on=1)
    assert "1 evaluation in 30 days" in text_of(page_of("f"))


def test_page__of_a_flag_that_is_not_used__says_since_when(production: Environment) -> None:
    FlagFactory(key="never", now=START)
    FlagFactory(key="once", now=START)
    count("once", production, 40, on=1)
    assert re.search(r"Usage Not evaluated here in the last 30 days (?!;)", text_of(page_of("never")))
    client = sign_in(username="bob")
    page = client.get(reverse("admin:flags_flag_change", args=[Flag.objects.get(key="once").pk]))
    assert "Not evaluated here in the last 30 days; last evaluated 16 Nov 2028, 12:00" in text_of(page)


def test_page__to_add_a_flag__shows_no_usage(db: None) -> None:
    assert "Usage" not in text_of(sign_in().get(reverse("admin:flags_flag_add")))


def test_page__names_that_look_like_markup__are_text(production: Environment) -> None:
    production.name = "<b>Production</b>"
    production.save(update_fields=["name"])
    FlagFactory(key="f", now=START)
    count("f", production, on=1)
    assert "<b>Production" not in page_of("f").content.decode()


# --- what makes it stale ---------------------------------------------------------------------------------------------


def test_page__of_a_stale_flag__says_in_words_why_and_what_to_do(production: Environment) -> None:
    FlagFactory(key="f", now=START, expires_at=NOW - DAY)
    assert (
        "The flag has expired. Remove it from the code, then archive it. "
        "The flag is at least 30 days old, and was not evaluated here in the last 30 days. "
        "If no code uses it any more, archive it." in text_of(page_of("f"))
    )


def test_page__of_a_flag_that_is_the_same_for_everyone__says_what(production: Environment) -> None:
    FlagFactory(key="f", now=START)
    count("f", production, off=1)
    assert (
        "The flag was not changed here for 30 days, and had the same outcome for everyone in that time. Replace it"
        in text_of(page_of("f"))
    )


def test_page__last_use_without_counts__is_still_shown(production: Environment) -> None:
    FlagFactory(key="f", now=START)
    LastUse.objects.create(environment=production, flag_key="f", outcome="on", hour=NOW)
    assert "had the same outcome for everyone" in text_of(page_of("f"))


def test_list__stale_flags__have_a_badge_for_each_reason(production: Environment) -> None:
    FlagFactory(key="both", now=START, expires_at=NOW)
    FlagFactory(key="fresh", now=NOW)
    client = sign_in()
    everything = text_of(client.get(reverse("admin:flags_flag_changelist")))
    assert "both expired not evaluated" in everything
    assert "fresh" in everything
    page = client.get(reverse("admin:flags_flag_changelist") + "?shelf=stale")
    assert [flag.key for flag in page.context["cl"].result_list] == ["both"]


def test_list__of_another_environment__goes_by_its_usage(production: Environment, staging: Environment) -> None:
    FlagFactory(key="f", now=START)
    count("f", staging, on=1, off=1)
    client = sign_in()
    stale = reverse("admin:flags_flag_changelist") + "?shelf=stale"
    assert [flag.key for flag in client.get(stale).context["cl"].result_list] == ["f"]
    client.post("/admin/config/environment/switch/", {"environment": "staging"})
    assert not client.get(stale).context["cl"].result_list
