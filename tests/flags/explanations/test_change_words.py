"""Changes of flags and segments as a product manager would say them."""

from __future__ import annotations

from typing import Any

from config.change_log.sentences import in_past, sentences
from flags.explanations.change_words import FLAG_WORDS, SEGMENT_WORDS
from tests.conftest import NOON
from tests.flags.engine.experiments import experiment_rule

GERMANY = {"attribute": "country", "operator": "equals", "value": "DE"}
TENTH = {"type": "attribute", "conditions": [GERMANY], "percentage": 10}
HALF = {"type": "percentage", "percentage": 50}
LISTED = {"type": "users", "userIds": ["a", "b", "c", "d"]}
MANY = {**GERMANY, "operator": "in", "value": ["DE", "AT", "CH", "LI"]}
DRIVEN = {**experiment_rule(), "forced": {"ada": "treatment"}}


def told(before: Any, after: Any, words: Any = FLAG_WORDS) -> list[str]:
    return [in_past(sentence) for sentence in sentences(before, after, words, NOON)]


def state(*rules: Any, enabled: bool = True) -> dict[str, Any]:
    return {"states": {"production": {"enabled": enabled, "rules": list(rules)}}}


def test_change__of_a_flag__is_a_sentence() -> None:
    for before, after, expected in [
        (state(), state(enabled=False), ["Switched off in production"]),
        (state(enabled=False), state(), ["Switched on in production"]),
        (state(), state(TENTH), ["Added a rule in production: 10 % of users whose country equals DE"]),
        (state(TENTH), state(), ["Removed a rule in production: 10 % of users whose country equals DE"]),
        (state(HALF), state(TENTH, HALF), [
            "Added a rule at place 1 in production: 10 % of users whose country equals DE"
        ]),
        (state(HALF, TENTH), state(TENTH, HALF), [
            "Moved rule 2 to place 1 in production: 10 % of users whose country equals DE"
        ]),
        (state(HALF), state({**HALF, "percentage": 60}), [
            "Changed rule 1 in production from 50 % of everyone to 60 % of everyone"
        ]),
        (state(HALF), state({**HALF, "comment": "Slowly"}), ["Set the comment of rule 1 in production to “Slowly”"]),
        (state(LISTED), state({**LISTED, "userIds": ["b", "c", "d", "e"]}), [
            "Added e to the user IDs of rule 1 in production",
            "Removed a from the user IDs of rule 1 in production",
        ]),
        (state({**TENTH, "conditions": [MANY]}), state({**TENTH, "conditions": [{**MANY, "value": [
            *MANY["value"][:3], "FR"]}]}), [
            "Added FR to the values of country in the conditions of rule 1 in production",
            "Removed LI from the values of country in the conditions of rule 1 in production",
        ]),
        (state(DRIVEN), state({**DRIVEN, "forced": {"ada": "treatment", "cy": "control"}}), [
            "Added cy with control to the testers of rule 1 in production"
        ]),
        (state(DRIVEN), state({**DRIVEN, "forced": {}}), [
            "Removed ada with treatment from the testers of rule 1 in production"
        ]),
        (state(DRIVEN), state({**DRIVEN, "group": {"key": "g", "from": 0, "to": 12.5}}), [
            "Set the group of rule 1 in production to 0 to 12.5 % of g"
        ]),
        ({}, {"archivedAt": "2026-01-31T12:00:00.000000Z"}, ["Archived"]),
        ({"archivedAt": "2026-01-31T12:00:00.000000Z"}, {}, ["Restored"]),
        ({}, {"clientVisible": False}, ["Hid the flag from client keys"]),
        ({"prerequisites": [{"flag": "base"}]}, {"prerequisites": []}, ["Removed the condition that base is on"]),
        ({}, {"prerequisites": [{"flag": "base", "variants": ["a", "b"]}]}, ["Required that base serves a or b"]),
        ({"offVariant": "a"}, {"offVariant": "b"}, ["Changed the variant when off from a to b"]),
        (
            {"variants": [{"key": "a", "value": 1}, {"key": "b", "value": "x"}]},
            {"variants": [{"key": "a", "value": 2}, {"key": "c", "value": True}]},
            [
                "Changed the value of the variant a from 1 to 2",
                "Added the variant c with the value yes",
                "Removed the variant b with the value “x”",
            ],
        ),
        ({}, {"expiresAt": "2026-11-26T09:00:00.000000Z"}, ["Set the expiry to 26 Nov 2026, 09:00 UTC"]),
    ]:  # fmt: skip
        assert told(before, after) == expected, (before, after)


def test_change__of_several_things__begins_with_what_matters_most() -> None:
    before = {"owner": "ada", **state(HALF, enabled=False)}
    after = {"owner": "grace", **state()}
    assert told(before, after) == [
        "Switched on in production",
        "Removed a rule in production: 50 % of everyone",
        "Changed the owner from “ada” to “grace”",
    ]


def test_change__of_a_segment__is_a_sentence() -> None:
    for before, after, expected in [
        ({"conditions": [GERMANY]}, {"conditions": []}, ["Removed the conditions: country equals DE"]),
        (
            {"conditions": [MANY]},
            {"conditions": [{**MANY, "value": [*MANY["value"], "FR"]}]},
            ["Changed the conditions from country is one of DE, AT, CH and 1 more to "
             "country is one of DE, AT, CH and 2 more"],
        ),
        ({"userIds": ["ada"]}, {"userIds": ["bob", "cy"]}, [
            "Added bob and cy to the user IDs", "Removed ada from the user IDs"
        ]),
        ({"userIds": ["ada"]}, {"userIds": ["ada", "bob; cy"]}, ["Added “bob; cy” to the user IDs"]),
    ]:  # fmt: skip
        assert told(before, after, SEGMENT_WORDS) == expected, (before, after)
