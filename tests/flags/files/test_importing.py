"""Reading files: their contents and errors, before anything is stored."""

from __future__ import annotations

import pytest

from flags.files.importing import MAX_BYTES, MAX_DEFECTS, File, FileRefused, read

WRONG = """\
version: 2
flag: []
segments:
  - key: a b
  - key: crowd
    conditions:
      - attribute: plan
        operator: is
        value: pro
    users: []
  - crowd
flags:
  - key: dark-mode
    description: 5
    type: string
    variants:
      - key: blue
        value: 1
    owner: null
    expiresAt: tomorrow
    archived: "yes"
    tags: [a, a]
    environments:
      production:
        enabled: on
        rules:
          - type: percentage
            percentage: 101
          - type: users
            userIds: [1]
      staging:
        rule: []
  - key: dark-mode
  - description: no key
"""
ERRORS = """\
flags.yaml, line 1: version: Must be 1, the only version of files that can be imported.
flags.yaml, line 2: flag: Unknown field; leave it out. The fields are: version, segments, flags.
flags.yaml, line 4: segments[0] (a b): key: Must be 1 to 100 letters, digits, dots, underscores and hyphens, the first a
 letter or a digit.
flags.yaml, line 8: segments[1] (crowd): conditions[0].operator: Unknown operator "is"; use one of: equals, notEquals,
flags.yaml, line 10: segments[1] (crowd): users: Unknown field; leave it out. The fields are: key,
 description, conditions, userIds.
flags.yaml, line 11: segments[2]: Must be an object such as {"key": "beta-testers"}.
flags.yaml, line 14: flags[0] (dark-mode): description: Must be a string.
flags.yaml, line 18: flags[0] (dark-mode): variants[0].value: Must be a string, because the flag is of type string.
flags.yaml, line 19: flags[0] (dark-mode): owner: Must be a string.
flags.yaml, line 20: flags[0] (dark-mode): expiresAt: Must be a date and time such as 2026-01-31T12:00:00Z.
flags.yaml, line 21: flags[0] (dark-mode): archived: Must be true or false.
flags.yaml, line 22: flags[0] (dark-mode): tags[1]: "a" is already in the list; leave it out.
flags.yaml, line 25: flags[0] (dark-mode): environments.production.enabled: Must be true or false.
flags.yaml, line 28: flags[0] (dark-mode): environments.production.rules[0].percentage: Must be a number from 0 to 100.
flags.yaml, line 30: flags[0] (dark-mode): environments.production.rules[1].userIds[0]: Must be a string.
flags.yaml, line 31: flags[0] (dark-mode): environments.staging.enabled: Is missing; add it.
flags.yaml, line 32: flags[0] (dark-mode): environments.staging.rule: Unknown field; leave it out. The
 fields are: enabled, rules.
flags.yaml, line 33: flags[1] (dark-mode): key: "dark-mode" is already in the list; leave it out.
flags.yaml, line 34: flags[2]: key: Is missing; add it.
"""


def read_yaml(text: str, **options: str) -> File:
    return read(text.encode(), name="flags.yaml", form="yaml", **options)


def errors_of(file: File) -> list[str]:
    return list(file.refused(file.content.defects).defects)


def test_read__everything_wrong__is_reported_at_once_by_its_line() -> None:
    expected = ERRORS.replace("\n ", " ").splitlines()
    found = errors_of(read_yaml(WRONG))
    assert len(found) == len(expected)
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning)


def test_read__what_is_wrong__is_not_in_the_content() -> None:
    content = read_yaml(WRONG).content
    assert (content.flags, content.segments) == ([], [])
    assert (content.refused_flags, content.refused_segments) == ({"dark-mode"}, {"a b", "crowd"})


def test_read__one_environment__leaves_the_others_out() -> None:
    text = "version: 1\nflags:\n  - key: a\n    environments: {production: {enabled: true}, staging: {enabled: true}}\n"
    [entry] = read_yaml(text, only_environment="staging").content.flags
    assert entry.states == {"staging": {"enabled": True, "rules": []}}


def test_read__json__is_reported_by_its_line_as_well() -> None:
    file = read(b'{"version": 1,\n"flags": [{"key": "a",\n"owner": 1}]}', name="f.json", form="json")
    assert errors_of(file) == ["f.json, line 3: flags[0] (a): owner: Must be a string."]


def test_read__text_that_cannot_be_taken__is_refused(subtests: pytest.Subtests) -> None:
    for raw, message in [
        (b"version: 1\nflags: \xff", "f, line 2: The file is not UTF-8."),
        (b"a: 1\na: 2\na: 3", 'f, line 2: The name "a" appears twice in the same object; remove one of them.'),
        (b'a: "\\ud83d"', "f, line 1: "),
        (b"a" * (MAX_BYTES + 1), "f, line 1: The file must be at most 20 MiB."),
        (b"a: &a\n  b: [*a]", "f, line 1: The anchor &a"),
    ]:
        with subtests.test(raw=raw):
            with pytest.raises(FileRefused) as refused:
                read(raw, name="f", form="yaml")
            assert refused.value.defects[0].startswith(message)


def test_read__another_shape__is_reported() -> None:
    for text, message in [
        ("[]", 'line 1: Must be an object, such as {"version": 1, "segments": [], "flags": []}.'),
        ("flags: []", "line 1: version: Is missing; add it."),
        ("version: true", "line 1: version: Must be 1, the only version of files that can be imported."),
        ("version: 1\nflags: {}", "line 2: flags: Must be a list of flags."),
        ("version: 1\nsegments: null", "line 2: segments: Must be a list of segments."),
        ("version: 1\nflags:\n- key: a\n  environments: [a]", "line 4: flags[0] (a): environments: Must be an object"),
        (
            "version: 1\nflags:\n- key: a\n  environments: {p: 1}",
            "line 4: flags[0] (a): environments.p: Must be an obj",
        ),
    ]:
        [line] = errors_of(read_yaml(text))
        assert line.startswith(f"flags.yaml, {message}"), text


def test_read__byte_order_mark__is_no_part_of_the_text() -> None:
    assert read(b"\xef\xbb\xbfversion: 1", name="f", form="yaml").text.value == {"version": 1}


def test_refused__hundreds_of_defects__are_counted_after_the_first() -> None:
    text = "version: 1\nflags:\n" + "  - key: '-'\n" * 250
    found = errors_of(read_yaml(text))
    assert len(found) == MAX_DEFECTS + 1
    assert found[-1] == f"and {2 * 250 - 1 - MAX_DEFECTS} more errors"
