"""Timetables: answers change without an edit only at the times that the timetable names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.validation.parsing import parse_flag, parse_segment

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
SIGNED_UP_LATELY = {"attribute": "signedUpAt", "operator": "after", "value": "-7d"}
INSTANT = timedelta(microseconds=1)


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def iso(minutes: float) -> str:
    return at(minutes).isoformat()


def configuration(*rules: dict[str, Any], segments: tuple[dict[str, Any], ...] = (), **more: Any) -> Configuration:
    flag = parse_flag({"key": "f", "enabled": True, "rules": list(rules), **more})
    return Configuration({"f": flag}, {segment["key"]: parse_segment(segment) for segment in segments})


def context(among: Configuration, now: datetime = NOW, **attributes: Any) -> Context:
    return Context("user-1", attributes, among, now)


def test_schedule__nothing_that_comes_or_goes__is_empty() -> None:
    for rules in [
        [],
        [{"type": "percentage", "percentage": 10}],
        [{"type": "percentage", "percentage": 10, "startAt": iso(5), "enabled": False}],
        [{"type": "attribute", "conditions": [{"attribute": "a", "operator": "after", "value": iso(5)}]}],
    ]:
        among = configuration(*rules)
        assert among.schedule.next_change(NOW) is None, rules
        assert among.schedule.last_change(NOW) is None, rules
        assert among.schedule.next_change_for(context(among, a=iso(5))) is None, rules


def test_schedule__start_end_and_ramp__are_its_moments_in_order() -> None:
    ramp = [{"at": iso(20), "percentage": 10}, {"at": iso(30), "percentage": 50}]
    schedule = configuration(
        {"type": "percentage", "percentage": 0, "startAt": iso(10), "endAt": iso(40), "ramp": ramp}
    ).schedule
    reached, now = [], NOW
    while (following := schedule.next_change(now)) is not None:
        assert schedule.last_change(following - INSTANT) == (reached[-1] if reached else None)
        assert schedule.last_change(following) == following
        reached.append(following)
        now = following
    assert reached == [at(10), at(20), at(30), at(40)]


def test_schedule__flag_that_is_off_or_archived__has_no_say() -> None:
    rule = {"type": "percentage", "percentage": 10, "startAt": iso(5)}
    assert configuration(rule, enabled=False).schedule.next_change(NOW) is None
    assert configuration(rule, archivedAt=iso(0)).schedule.next_change(NOW) is None


def test_next_change_for__relative_condition__is_when_the_attribute_comes_of_age() -> None:
    among = configuration({"type": "attribute", "conditions": [SIGNED_UP_LATELY]})
    week = timedelta(days=7)
    assert among.schedule.next_change_for(context(among, signedUpAt=iso(-60))) == at(-60) + week
    assert among.schedule.next_change_for(context(among, signedUpAt=[iso(-60), iso(-90)])) == at(-90) + week
    assert among.schedule.next_change_for(context(among, signedUpAt="2020-01-01")) is None
    assert among.schedule.next_change_for(context(among, signedUpAt="soon")) is None
    assert among.schedule.next_change_for(context(among, signedUpAt=42)) is None
    assert among.schedule.next_change(NOW) is None


def test_next_change_for__list_that_conditions_do_not_look_into__never_comes_of_age() -> None:
    among = configuration({"type": "attribute", "conditions": [SIGNED_UP_LATELY]})
    assert among.schedule.next_change_for(context(among, signedUpAt=[iso(-60)] * 1_000)) is not None
    assert among.schedule.next_change_for(context(among, signedUpAt=[iso(-60)] * 1_001)) is None


def test_schedule__many_flags_that_ask_the_same__look_once() -> None:
    rule = {"type": "attribute", "conditions": [SIGNED_UP_LATELY]}
    flags = [parse_flag({"key": f"f-{at}", "enabled": True, "rules": [rule]}) for at in range(50)]
    among = Configuration({flag.key: flag for flag in flags}, {})
    assert len(among.schedule.times.flips) == 1


def test_next_change_for__condition_of_a_segment__counts_too() -> None:
    segment = {"key": "new", "conditions": [SIGNED_UP_LATELY]}
    among = configuration({"type": "segment", "segment": "new"}, segments=(segment,))
    assert among.schedule.next_change_for(context(among, signedUpAt=iso(0))) == NOW + timedelta(days=7)


def test_next_change_for__moment_that_no_calendar_has__never_comes() -> None:
    condition = {"attribute": "a", "operator": "after", "value": "-99999w"}
    among = configuration({"type": "attribute", "conditions": [condition]})
    assert among.schedule.next_change_for(context(among, a="9999-12-31")) is None


minutes = st.integers(0, 6)  # few, so that they meet
distances = st.integers(-3, 3).map(lambda minutes: f"{minutes:+d}m")
conditions = st.builds(
    lambda operator, value, negate: {"attribute": "a", "operator": operator, "value": value, "negate": negate},
    st.sampled_from(["before", "after"]),
    distances | minutes.map(iso),
    st.booleans(),
)
ramps = st.lists(minutes, min_size=1, max_size=3, unique=True).map(
    lambda steps: [{"at": iso(moment), "percentage": 30 * (n + 1)} for n, moment in enumerate(sorted(steps))]
)
rules = st.fixed_dictionaries(
    {"type": st.just("percentage"), "percentage": st.sampled_from([0, 100])},
    optional={"startAt": minutes.map(iso), "conditions": st.lists(conditions, max_size=2), "ramp": ramps},
)
attributes = st.one_of(minutes.map(iso), st.lists(minutes.map(iso), max_size=2), st.just("never"))


@settings(max_examples=1000)
@given(st.lists(rules, max_size=3), attributes, minutes, minutes, st.sampled_from([-1, 0, 1]))
def test_next_change_for__two_moments__differ_in_their_answers_only_if_it_lies_between_them(
    rules: list[dict[str, Any]], value: Any, one: float, other: float, instants: int
) -> None:
    among = configuration(*rules)
    earlier, later = sorted([at(one), at(other) + instants * INSTANT])
    before, after = (context(among, now, a=value) for now in (earlier, later))
    if evaluate(among.flags["f"], before) != evaluate(among.flags["f"], after):
        first = among.schedule.next_change_for(before)
        assert first is not None
        assert first <= later
        assert first != among.schedule.next_change_for(after)
