"""Every field of every kind of object: its changes are sentences that name no attribute and show no raw value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from config.access import api_keys, environments
from config.access.accounts import GROUP, USER
from config.change_log.descriptions import describe_differences
from config.change_log.sentences import in_past, kind_words
from config.models import KINDS, ApiKey, Environment, Webhook
from config.webhooks import writes as webhooks
from experiments.metrics import changes as metrics
from experiments.metrics.definition import COLUMNS, meaning
from experiments.models import Experiment, Metric
from experiments.models import documents as experiments
from flags.changes import flag_changes, kill_switches, segment_changes
from flags.changes.properties import PROPERTIES
from flags.models import KillSwitch, Segment
from flags.validation.rules import RULE_FIELDS
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

THEN, LATER = "2026-01-31T12:00:00.000000Z", "2026-02-01T09:30:00.000000Z"
GERMANY = {"attribute": "country", "operator": "in", "value": ["DE"]}
SPLIT = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
OTHER_SPLIT = [{"key": "control", "weight": 25}, {"key": "green", "weight": 75}]
BOUGHT = {"key": "buy", "version": 1, **meaning(Metric(type="conversion", event="buy"))}
PHASE = {"startedAt": THEN, "variants": SPLIT, "percentage": 100, "conditions": [], "reason": ""}
PAID = {"property": "amount", "operator": "greaterThan", "value": 10}
PLAN = {
    **{"primaryMetric": "buy", "direction": "increase", "plannedSampleSize": 5_000, "minimumEffect": None},
    **{"analysis": "sequential", "minimumDays": 7, "lookbackDays": 28, "tuningSampleSize": 10_000},
}
TENTH = {"type": "percentage", "percentage": 10}

# Two values of each field, for each kind of object.
VALUES: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    environments.KIND: {
        "name": ("Shop", "Store"),
        "isDefault": (True, False),
        "protected": (True, False),
        "changeReason": ("none", "required"),
    },
    api_keys.KIND: {
        "name": ("shop", "store"),
        "environment": ("production", "staging"),
        "scope": ("client", "manage"),
        "common": (True, False),
        "prefix": ("hal-a", "hal-b"),
        "expiresAt": (THEN, LATER),
        "revokedAt": (THEN, None),
    },
    webhooks.KIND: {
        "name": ("shop", "store"),
        "url": ("https://a.example/… (1)", "https://b.example/… (2)"),
        "format": ("plain", "slack"),
        "environments": (["production"], ["staging"]),
        "kinds": (["api_key"], ["flag", "kill_switch"]),
        "tags": (["shop"], ["store"]),
        "secret": ("1", "2"),
        "pausedAt": (THEN, None),
    },
    USER: {
        "username": ("ada", "grace"),
        "active": (True, False),
        "staff": (True, False),
        "superuser": (True, False),
        "groups": (["readers"], ["editors"]),
        "permissions": (["flags.view_flag"], ["flags.change_flag", "auth.view_user"]),
        "password": ("changed", None),
    },
    GROUP: {"name": ("readers", "editors"), "permissions": (["flags.view_flag"], [])},
    kill_switches.KIND: {
        "name": ("panic", "calm"),
        "environment": ("production", "staging"),
        "flags": (["f"], ["g"]),
        "prefix": ("hal-a", "hal-b"),
        "revokedAt": (THEN, None),
    },
    segment_changes.KIND: {
        "description": ("Ours", "Theirs"),
        "conditions": ([GERMANY], [{**GERMANY, "value": ["CH"]}]),
        "userIds": (["ada"], ["grace"]),
    },
    flag_changes.KIND: {
        "description": ("Old", "New"),
        "states": ({"eu": {"enabled": False, "rules": []}}, {"eu": {"enabled": True, "rules": [TENTH]}}),
        "archivedAt": (THEN, None),
        "type": ("string", "boolean"),
        "variants": ([{"key": "a", "value": "x"}], [{"key": "a", "value": "y"}, {"key": "b", "value": 1}]),
        "offVariant": ("a", "b"),
        "defaultVariant": ("a", "b"),
        "schema": (["x"], ["y"]),
        "prerequisites": ([{"flag": "g"}], [{"flag": "g", "variants": ["a"]}, {"flag": "h"}]),
        "tags": (["shop"], ["store"]),
        "owner": ("ada", "grace"),
        "expiresAt": (THEN, LATER),
        "clientVisible": (False, True),
    },
    metrics.KIND: {
        "description": ("Old", "New"),
        "version": (1, 2),
        "type": ("conversion", "count"),
        "event": ("buy", "sell"),
        "property": ("amount", "price"),
        "currency": ("EUR", "CHF"),
        "denominator": ({"event": "visit"}, {"event": "view", "property": "amount", "where": [PAID]}),
        "where": ([PAID], [{**PAID, "value": 20}]),
        "steps": ([{"event": "visit"}, {"event": "buy"}], [{"event": "view"}, {"event": "buy"}]),
        "quantile": (0.5, 0.95),
        "windowHours": (24, 168),
        "delayHours": (24, 1),
        "fromDay": (7, 8),
        "toDay": (14, 15),
        "capValue": (1_000, 2_000),
        "capPercentile": (99, 95),
        "direction": ("increase", "decrease"),
        "role": ("goal", "guardrail"),
        "margin": (0.05, 0.1),
        "marginAbsolute": (0.5, 1),
    },
    experiments.KIND: {
        "description": ("Old", "New"),
        "status": ("draft", "running"),
        "variants": (SPLIT, OTHER_SPLIT),
        "metrics": (["buy"], ["visit"]),
        "definitions": ([BOUGHT], [{**BOUGHT, "event": "pay"}, {**BOUGHT, "key": "visit"}]),
        "tuningSampleSize": (5_000, 10_000),
        "givenTuningSampleSize": (5_000, 10_000),
        "percentage": (10, 12.5),
        "conditions": ([GERMANY], [{**GERMANY, "value": ["CH"]}]),
        "group": ({"key": "checkout", "from": 0, "to": 50}, {"key": "checkout", "from": 50, "to": 100}),
        "forcedVariants": ({"ada": "green"}, {"ada": "control", "grace": "green"}),
        "flag": ({"key": "f", "serves": {"green": True}}, {"key": "f", "serves": {"green": "new"}}),
        "plannedSampleSize": (5_000, 10_000),
        "minimumEffect": (0.05, 0.1),
        "analysis": ("fixed", "sequential"),
        "minimumDays": (1, 14),
        "lookbackDays": (7, 14),
        "owner": ("ada", "grace"),
        "hypothesis": ("More", "Less"),
        "archivedAt": (THEN, None),
        "registration": (PLAN, {**PLAN, "plannedSampleSize": 10_000}),
        "phases": ([PHASE], [PHASE, {**PHASE, "percentage": 50}]),
        "winner": ("control", "green"),
        "decision": ({"winner": "green", "holdback": 5, "overridden": ["not_the_verdict"]}, None),
        "startedAt": (THEN, LATER),
        "stoppedAt": (THEN, LATER),
        "countsUntil": (LATER, None),
    },
}

# A value of each field of a rule, and another one.
RULES: Mapping[str, tuple[Any, Any]] = {
    "type": ("attribute", "percentage"),
    "name": ("first", "second"),
    "comment": ("why", "because"),
    "enabled": (False, True),
    "percentage": (10, 20),
    "conditions": ([GERMANY], [{**GERMANY, "value": ["CH"]}]),
    "startAt": ("2026-02-01", "2026-03-01"),
    "endAt": ("2026-04-01", "2026-05-01"),
    "salt": ("a", "b"),
    "bucketBy": ("company", "team"),
    "ramp": ([{"at": "2026-02-01", "percentage": 20}], [{"at": "2026-02-01", "percentage": 30}]),
    "ranges": ([{"salt": "s", "from": 0, "to": 10}], [{"salt": "s", "from": 0, "to": 20}]),
    "serves": (False, True),
    "variant": ("a", "b"),
    "split": ([{"variant": "a", "weight": 1}], [{"variant": "a", "weight": 1}, {"variant": "b", "weight": 1}]),
    "userIds": (["ada"], ["ada", "grace"]),
    "segment": ("testers", "partners"),
}

RAW = re.compile(r"\bnothing\b|\bNone\b|\bnull\b|[a-z][A-Z]|_|[{}\[\]]|\d{4}-\d\d-\d\d")
"""Programmers' words: names of attributes, empty values, JSON, and times as the API writes them."""


def fields_of(kind: str) -> Iterable[str]:
    """Return the properties that documents of a kind have, from the code that makes them."""
    somewhere = Environment(key="production")
    made: Mapping[str, Iterable[str]] = {
        environments.KIND: environments.environment_as_json(somewhere),
        api_keys.KIND: api_keys.key_as_json(ApiKey(environment=somewhere)),
        webhooks.KIND: webhooks.webhook_as_json(Webhook(url="https://a.example")),
        kill_switches.KIND: kill_switches.kill_switch_as_json(KillSwitch(environment=somewhere)),
        segment_changes.KIND: segment_changes.segment_as_json(Segment()),
        flag_changes.KIND: ["description", "states", "archivedAt", *(each.name for each in PROPERTIES.values())],
        metrics.KIND: ["description", "version", *COLUMNS],
        experiments.KIND: [*experiments.experiment_as_json(Experiment()), *experiments._extras(Experiment())],
    }
    return made.get(kind, VALUES[kind])


def differences(kind: str, before: Any, after: Any) -> list[str]:
    return [in_past(line) for line in describe_differences(before, after, kind, NOON)]


def test_words__of_a_kind__name_every_field() -> None:
    for kind in KINDS:
        fields = set(fields_of(kind)) - {"id", "key"}
        assert set(VALUES[kind]) == fields
        words = kind_words[kind]
        assert fields <= {*words.labels, *words.sentences}


def test_change__of_a_field__is_a_sentence_without_raw_words() -> None:
    for kind, name in [(kind, name) for kind, fields in VALUES.items() for name in fields]:
        one, other = VALUES[kind][name]
        common = BOUGHT if kind == metrics.KIND else {"key": "k"}
        first, second = {**common, name: one}, common if other is None else {**common, name: other}
        pairs = [(first, second), (second, first)] + ([] if name in common else [(common, first), (first, common)])
        assert differences(kind, second, first)
        assert [line for pair in pairs for line in differences(kind, *pair) if RAW.search(line)] == []


def test_object__new_or_deleted__is_described_without_raw_words() -> None:
    for kind in KINDS:
        for side in (0, 1):
            document = {name: values[side] for name, values in VALUES[kind].items() if values[side] is not None}
            document = {**(BOUGHT if kind == metrics.KIND else {}), "id": "1", "key": "k", **document}
            lines = [*differences(kind, None, document), *differences(kind, document, None)]
            assert lines
            assert [line for line in lines if RAW.search(line)] == []


def test_rules__every_field__is_a_sentence_without_raw_words() -> None:
    assert set(RULES) == set(RULE_FIELDS) | {"type"}
    for name, (one, other) in RULES.items():
        base = {"type": "percentage", "percentage": 50, "conditions": [GERMANY]}
        bare = {each: value for each, value in base.items() if each != name or each == "type"}
        rules = [bare, {**base, name: one}, {**base, name: other}]
        for before in rules:
            for after in rules:
                old, new = ({"states": {"eu": {"enabled": True, "rules": [rule]}}} for rule in (before, after))
                lines = differences(flag_changes.KIND, old, new)
                assert bool(lines) is (before != after), name
                assert [line for line in lines if RAW.search(line)] == [], name
