"""Words about a flag, parsed back, are true: they are compared with the engine at the times they name.

The tests have a grammar of their own, so that words that say something else, or too little, fail.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from typing import Any

import pytest

from flags.engine.bucketing import threshold
from flags.engine.evaluation import evaluate
from flags.engine.timestamps import parse_timestamp
from flags.engine.types import Configuration, Context, Evaluation, Flag
from flags.explanations.rule_words import describe_flag_value, describe_rule, describe_state, summarise_rules
from flags.validation.parsing import parse_flag
from tests.flags.engine.experiments import experiment_rule
from tests.flags.engine.reference import reference_bucket

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)  # a Wednesday
INSTANT = timedelta(microseconds=1)
USERS = [(f"u{number}", {"plan": ("pro", "free")[number % 2]}) for number in range(60)]
BUCKETS = {user_id: reference_bucket("f", user_id) for user_id, _ in USERS}

SCHEDULES: Mapping[str, dict[str, Any]] = {
    "none": {},
    "future": {"startAt": "2026-11-27T09:00:00Z"},
    "future, with an end": {"startAt": "2026-11-26", "endAt": "2026-12-24T18:30:15.25Z"},
    "running": {"startAt": "2026-11-23T13:36:00Z"},
    "running, with an end": {"startAt": "2026-11-23T13:36:00Z", "endAt": "2026-11-30"},
    "over": {"startAt": "2025-02-01", "endAt": "2025-03-02T10:00:00Z"},
    "over since midnight": {"endAt": "2025-03-02"},
    "over today": {"endAt": "2026-11-25T11:59:59Z"},
}
FRIDAY = {"at": "2026-11-27", "percentage": 50}
STEPS = [FRIDAY, *({"at": f"2026-12-0{day}T08:00:00+01:00", "percentage": 50 + 10 * day} for day in range(1, 5))]
SHARES: Mapping[str, dict[str, Any]] = {
    "everyone": {"percentage": 100},
    "nobody": {"percentage": 0},
    "a share": {"percentage": 12.5},
    "a ramp to come": {"ramp": [FRIDAY]},
    "a ramp under way": {"ramp": [{"at": "2026-11-20", "percentage": 30}, FRIDAY]},
    "a ramp that is over": {"percentage": 5, "ramp": [{"at": "2026-11-20", "percentage": 30}]},
    "a ramp down": {"percentage": 100, "ramp": [{**FRIDAY, "percentage": 20}, {"at": "2026-12-01", "percentage": 0}]},
    "a ramp of many steps": {"percentage": 1, "ramp": STEPS},
    "a ramp without a change": {"percentage": 50, "ramp": [FRIDAY]},
    "a ramp that is down": {"percentage": 100, "ramp": [{"at": "2026-11-20", "percentage": 0}]},
    "a ramp that never rises": {"percentage": 0, "ramp": [{**FRIDAY, "percentage": 0}]},
}
FOR_NOBODY = ("nobody", "a ramp that is down", "a ramp that never rises")
"""Shares that are 0 % from NOW on."""
PRO = [{"attribute": "plan", "operator": "equals", "value": "pro"}]
AUDIENCES: Sequence[dict[str, Any]] = (
    {"type": "percentage"},
    {"type": "percentage", "conditions": PRO},
    {"type": "attribute", "conditions": PRO},
)
SERVED: Sequence[dict[str, Any]] = (
    {},
    {"variant": "green"},
    {"split": [{"variant": key, "weight": weight} for key, weight in (("red", 1), ("green", 3), ("blue", 0))]},
)


@dataclass(frozen=True)
class Claim:
    """What words say: the share of an audience from each time on, and the variants that users get.

    Between the two times of a `gap`, words say only that there are steps.
    """

    audience: str
    shares: Sequence[tuple[datetime, float]]
    variants: frozenset[str] = frozenset()
    gap: tuple[datetime, datetime] | None = None

    def covers(self, moment: datetime) -> bool:
        return self.gap is None or not self.gap[0] < moment < self.gap[1]

    def share_at(self, moment: datetime) -> float:
        return next((share for start, share in reversed(self.shares) if start <= moment), 0)

    def has(self, user_id: str, attributes: Mapping[str, str], moment: datetime) -> bool:
        is_in_audience = self.audience.endswith("everyone") or attributes["plan"] == "pro"
        return is_in_audience and BUCKETS[user_id] < threshold(self.share_at(moment))


# reading

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIME = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)? UTC"
MOMENT = rf"(?:\d+ \w{{3}} \d{{4}}(?:, {TIME})?|(?:{'|'.join(DAYS)})(?: at {TIME})?)"


def read_moment(text: str, at: datetime) -> datetime:
    day, _, time = re.sub(" at ", ", ", text).partition(", ")
    if day in DAYS:
        found = next(
            ahead for days in range(1, 7) if DAYS[(ahead := at + timedelta(days=days)).weekday()] == day
        ).date()
    else:
        found = datetime.strptime(day, "%d %b %Y").replace(tzinfo=UTC).date()
    return parse_timestamp(f"{found}T{time.removesuffix(' UTC') or '00:00'}")


def read_rule(words: str, at: datetime) -> Claim:
    """Read one rule: `25 % of everyone from 26 Nov until 1 Dec 2026, 09:00 UTC`, `plan equals pro: 5 % now → red`."""
    words, _, served = words.partition(" → ")
    variants = frozenset(served.split(" / ")) if served else frozenset[str]()
    if ended := re.fullmatch(rf"(.+), ended {MOMENT}", words):
        return Claim(ended[1].rpartition(" % of ")[2], [], variants)
    words, end = take(rf",? until ({MOMENT})", words)
    words, last = take(rf", and \d+ more steps to ([\d.]+ % from {MOMENT})", words)
    shares: list[tuple[datetime, float]] = []
    gap = None
    audience, _, steps = words.rpartition(": ")
    if re.fullmatch(rf"[\d.]+ %(?: now| from {MOMENT})?(?:, .+)?", steps):
        for share, start in re.findall(rf"([\d.]+) %(?: now| from ({MOMENT}))?(?:, |$)", steps):
            shares.append((read_moment(start, at) if start else at, float(share)))
    else:
        words, start = take(rf",? from ({MOMENT})", words)
        share, _, audience = words.rpartition(" % of ")
        shares.append((read_moment(start, at) if start else at, float(share or 100)))
    if last:
        share, _, start = last.partition(" % from ")
        gap = shares[-1][0], read_moment(start, at)
        shares.append((gap[1], float(share)))
    if end:
        shares.append((read_moment(end, at), 0))
    return Claim(audience or "everyone", shares, variants, gap)


def take(pattern: str, words: str) -> tuple[str, str]:
    """Return the words without their end, if it matches, and the time in it."""
    found = re.fullmatch(rf"(.*?){pattern}", words)
    return (found[1], found[2]) if found else (words, "")


# evaluating


def compile_rules(*rules: dict[str, Any], **fields: Any) -> Flag:
    variants = [{"key": key, "value": key} for key in ("red", "green", "blue")]
    values = (
        {"type": "string", "variants": variants} if any({"variant", "split"} & rule.keys() for rule in rules) else {}
    )
    return parse_flag({"key": "f", "enabled": True, "rules": list(rules), **values, **fields})


def evaluations(flag: Flag, moment: datetime) -> list[Evaluation]:
    configuration = Configuration({"f": flag}, {})
    return [evaluate(flag, Context(user_id, attributes, configuration, moment)) for user_id, attributes in USERS]


def probes(rule: Mapping[str, Any], at: datetime) -> list[datetime]:
    """Return the time, each later one that the rule names, and the instants before those."""
    named = [rule.get("startAt"), rule.get("endAt"), *(step["at"] for step in rule.get("ramp", ()))]
    moments = [parse_timestamp(text) for text in named if text]
    around = {moment - distance for moment in moments for distance in (timedelta(0), INSTANT)}
    return sorted({at, *(moment for moment in around if moment >= at)})


def check(claims: Sequence[Claim], flag: Flag, moments: Sequence[datetime], words: str) -> None:
    for moment in moments:
        answers = evaluations(flag, moment)
        claimed = [any(claim.has(*user, moment) for claim in claims) for user in USERS]
        assert [answer.enabled for answer in answers] == claimed, (words, moment)
        served = {answer.variant for answer in answers if answer.enabled}
        if variants := frozenset().union(*(claim.variants for claim in claims)):
            assert served <= variants, (words, moment)


def rules_of(schedule: str, share: str) -> Iterator[dict[str, Any]]:
    for audience, served in product(AUDIENCES, SERVED):
        yield {**audience, **SCHEDULES[schedule], **SHARES[share], **served}


CASES = list(product(SCHEDULES, SHARES))


def test_summary__schedule_ramp_condition_and_split__is_true_at_the_moment_and_at_those_it_names() -> None:
    for schedule, share in CASES:
        for rule in rules_of(schedule, share):
            words = summarise_rules([rule], NOW)
            if schedule.startswith("over"):
                assert words.startswith("no one: the rule ended "), (schedule, share)
                check([], compile_rules(rule), [NOW, NOW + timedelta(days=365)], words)
            elif share in FOR_NOBODY:
                assert words == "no one", (schedule, share)
                check([], compile_rules(rule), [*probes(rule, NOW), NOW + timedelta(days=365)], words)
            else:
                claim = read_rule(words, NOW)
                shown = [moment for moment in probes(rule, NOW) if claim.covers(moment)]
                check([claim], compile_rules(rule), shown, words)
                assert ("plan equals pro" in words) == ("conditions" in rule), (schedule, share)


def test_history__schedule_ramp_condition_and_split__is_true_whenever_it_is_read() -> None:
    for schedule, share in CASES:
        for rule in rules_of(schedule, share):
            words = describe_flag_value("states.production.rules[0]", rule, NOW) or ""
            assert not re.search(rf"\bnow\b|{'|'.join(DAYS)}", words), (schedule, share)
            claim = read_rule(words, NOW)
            shown = [moment for moment in probes(rule, NOW) if claim.covers(moment)]
            check([claim], compile_rules(rule), shown, words)


def test_state__schedule_ramp_condition_and_split__is_true() -> None:
    for schedule, share in CASES:
        for rule in rules_of(schedule, share):
            words = describe_state({"enabled": True, "rules": [rule]}, NOW)
            assert words.startswith("on for "), (schedule, share)
            if share in FOR_NOBODY and not schedule.startswith("over"):
                assert words == "on for no one", (schedule, share)
            elif not schedule.startswith("over"):
                claim = read_rule(words.removeprefix("on for "), NOW)
                check([claim], compile_rules(rule), [NOW], words)
            off = {"enabled": False, "rules": [rule]}
            assert describe_state(off, NOW) == "off", (schedule, share)
            check([], compile_rules(rule, enabled=False), probes(rule, NOW), "off")


def test_rule__over__says_when_it_ended_and_for_whom(subtests: pytest.Subtests) -> None:
    for schedule in ["over", "over since midnight", "over today"]:
        for share in ["everyone", "a share"]:
            with subtests.test(schedule=schedule, share=share):
                rule = {**AUDIENCES[0], **SCHEDULES[schedule], **SHARES[share]}
                words = describe_rule(rule, NOW)
                users, ended = re.fullmatch(rf"(.+), ended ({MOMENT})", words).groups()  # type: ignore[union-attr]  # or it fails
                claim = Claim(
                    "everyone",
                    [(datetime.min.replace(tzinfo=UTC), float(users.partition(" % of ")[0]) if "%" in users else 100)],
                )
                moment = read_moment(ended, NOW)
                is_day = ":" not in ended
                check([claim], compile_rules(rule), [moment - INSTANT], words)
                check([], compile_rules(rule), [moment + timedelta(days=1) if is_day else moment, NOW], words)


def test_summary__two_rules__is_true_of_both(subtests: pytest.Subtests) -> None:
    for first, second in list(product(SCHEDULES, SCHEDULES)):
        with subtests.test(first=first, second=second):
            rules = [
                {**AUDIENCES[2], **SCHEDULES[first], **SHARES["everyone"]},
                {**AUDIENCES[0], **SCHEDULES[second], **SHARES["a ramp under way"]},
            ]
            words = summarise_rules(rules, NOW)
            claims = [] if words.startswith("no one: ") else [read_rule(part, NOW) for part in words.split("; ")]
            moments = sorted({moment for rule in rules for moment in probes(rule, NOW)})
            check(claims, compile_rules(*rules), moments, words)


EVERYONE = {"type": "percentage", "percentage": 100}
NOBODY = {**EVERYONE, "percentage": 0}


def test_summary__rule_for_nobody_beside_others__leaves_it_out() -> None:
    for others, words in [
        ([{**EVERYONE, "percentage": 25}], "25 % of everyone"),
        ([NOBODY], "no one"),
        ([{**EVERYONE, "enabled": False}], "no one"),
        ([{**EVERYONE, "endAt": "2025-03-02"}], "no one"),
        ([{**NOBODY, "ramp": [FRIDAY]}], "50 % of everyone from 27 Nov 2026"),
        ([{**NOBODY, "startAt": "2026-11-27"}], "no one"),
    ]:
        for rules in ([NOBODY, *others], [*others, NOBODY]):
            assert summarise_rules(rules, NOW) == words, others
            claims = [] if words == "no one" else [read_rule(words, NOW)]
            check(claims, compile_rules(*rules), [NOW, NOW + timedelta(days=30)], words)


@pytest.mark.parametrize("percentage", [0, 50])
def test_summary__experiment_beside_a_rule_for_nobody__says_that_others_see_nothing(percentage: int) -> None:
    rules = [experiment_rule(percentage=percentage), NOBODY]
    answers = evaluations(compile_rules(*rules), NOW)
    assert not any(answer.enabled for answer in answers if answer.participation is None)
    assert summarise_rules(rules, NOW) == summarise_rules(rules[:1], NOW).removesuffix("; everyone else")


def test_rule__for_nobody__says_its_share() -> None:
    assert describe_rule(NOBODY, NOW) == "0 % of everyone"
    assert describe_rule({**NOBODY, "conditions": PRO}, NOW) == "0 % of everyone whose plan equals pro"


def test_summary__random_schedules_at_random_moments__is_true() -> None:
    for seed in range(30):
        choose = random.Random(seed)
        for _ in range(10):
            moments = sorted(choose.sample(range(1, 60 * 24 * 20), 5))
            start, first, second, third, end = (NOW + timedelta(minutes=minutes) for minutes in moments)
            steps = [
                {"at": at.isoformat(), "percentage": choose.choice([0, 10, 50, 100])} for at in (first, second, third)
            ]
            rule: dict[str, Any] = {"type": "percentage", "percentage": choose.choice([0, 20, 100]), "ramp": steps}
            rule |= choose.choice([{}, {"startAt": start.isoformat()}, {"startAt": second.isoformat()}])
            rule |= choose.choice([{}, {"endAt": end.isoformat()}, {"endAt": (third + INSTANT).isoformat()}])
            at = NOW + timedelta(minutes=choose.randrange(60 * 24 * 25))
            words = summarise_rules([rule], at)
            is_for_nobody = words.startswith("no one")
            check([] if is_for_nobody else [read_rule(words, at)], compile_rules(rule), probes(rule, at), words)
            answers = [answer for moment in probes(rule, at) for answer in evaluations(compile_rules(rule), moment)]
            assert is_for_nobody == (not any(answer.enabled for answer in answers)), (words, at)


def test_summary__of_a_flag_that_an_experiment_drives__says_what_others_see() -> None:
    for fields in [{}, {"percentage": 20}, {"conditions": PRO}]:
        for others in [[], [{"type": "percentage", "percentage": 100, "enabled": False}]]:
            rules = [experiment_rule(**fields), *others]
            answers = evaluations(compile_rules(*rules), NOW)
            is_on_for_others = [answer.enabled for answer in answers if answer.participation is None]
            words = summarise_rules(rules, NOW)
            assert words.endswith("; everyone else") == (bool(is_on_for_others) and all(is_on_for_others)), (
                fields,
                others,
            )


def test_state__of_some_flags__reads_so() -> None:
    for rules, words in [
        ([], "on for everyone"),
        ([{**EVERYONE, "startAt": "2026-11-27T13:36:00Z"}], "on for everyone from 27 Nov 2026, 13:36 UTC"),
        ([{**EVERYONE, "endAt": "2025-03-02T10:00:00Z"}], "on for no one: the rule ended 2 Mar 2025"),
        (
            [{**EVERYONE, "ramp": [{"at": "2026-11-20", "percentage": 30}, FRIDAY]}],
            "on for 30 % now, 50 % from Friday",
        ),
        (
            [{"type": "percentage", "percentage": 1, "ramp": STEPS}],
            "on for 1 % now, 50 % from Friday, 60 % from Tuesday at 07:00 UTC, "
            "and 3 more steps to 90 % from 4 Dec 2026, 07:00 UTC",
        ),
        (
            [{"type": "attribute", "conditions": PRO, "ramp": [FRIDAY, {"at": "2026-12-02", "percentage": 100}]}],
            "on for users whose plan equals pro: 50 % from Friday, 100 % from 2 Dec 2026",
        ),
        (
            [{"type": "attribute", "conditions": PRO, "percentage": 5, "endAt": "2026-11-30"}],
            "on for 5 % of users whose plan equals pro, until 30 Nov 2026, 00:00 UTC",
        ),
        ([NOBODY], "on for no one"),
        (
            [{**EVERYONE, "endAt": "2025-01-01"}, {**EVERYONE, "endAt": "2025-03-02"}],
            "on for no one: the last rule ended 2 Mar 2025",
        ),
        (
            [{**EVERYONE, "enabled": False}, {**EVERYONE, "endAt": "2026-11-25T11:30:00Z"}],
            "on for no one: the last rule that is not off ended 25 Nov 2026, 11:30 UTC",
        ),
    ]:
        assert describe_state({"enabled": True, "rules": rules}, NOW) == words, rules


def test_state__with_prerequisites_or_archived__says_so() -> None:
    state = {"enabled": True, "rules": [], "prerequisites": [{"flag": "search"}, {"flag": "login"}]}
    assert describe_state(state, NOW) == "on for everyone, requires search and login"
    assert describe_state({**state, "archivedAt": "2026-01-01T00:00:00Z"}, NOW) == "off: archived"


def test_days_of_the_week__name_the_six_days_ahead_only() -> None:
    starts = [NOW.date() + timedelta(days=days) for days in range(9)]
    words = [
        summarise_rules(
            [{"type": "percentage", "percentage": 1, "ramp": [step(start, 2), step(date(2027, 1, 1), 3)]}], NOW
        )
        for start in starts[1:]
    ]
    named = [re.findall("|".join(DAYS), text) for text in words]
    assert named == [["Thursday"], ["Friday"], ["Saturday"], ["Sunday"], ["Monday"], ["Tuesday"], [], []]
    assert all(earlier < later for earlier, later in pairwise(starts))


def step(day: date, percentage: int) -> dict[str, Any]:
    return {"at": day.isoformat(), "percentage": percentage}
