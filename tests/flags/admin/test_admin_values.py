"""The parts of a flag's form beyond its switch: values, prerequisites and warnings."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.urls import reverse

from config.models import Environment, Source
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.models import Flag
from tests.admin import errors_of, filled, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON

ADD = "/admin/flags/flag/add/"
COLOURS = [{"key": "blue", "value": "Buy now"}, {"key": "green", "value": "Order"}]


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(
        key="colour",
        type="string",
        variants=COLOURS,
        tags=["shop"],
        owner="Ada",
        expires_at=datetime(2027, 1, 1, 10, 30, tzinfo=UTC),
        environment=production,
        actor=ACTOR,
        now=NOON,
    )


def change_page(flag: Flag) -> str:
    return reverse("admin:flags_flag_change", args=[flag.pk])


def test_add__with_every_property__stores_them(production: Environment) -> None:
    create_flag(key="payments", type="string", variants=COLOURS, environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    before = revision()
    sent = {
        "key": "colour",
        "type": "number",
        "variants": '[{"key": "one", "value": 1}, {"key": "two", "value": 2.5}]',
        "default_variant": "two",
        "off_variant": "one",
        "schema": '{"maximum": 3}',
        "prerequisites": '[{"flag": "payments", "variants": ["blue"]}]',
        "tags": " shop,  q4 , ",
        "owner": "Ada",
        "expires_at": "2027-01-01T10:30",
    }
    assert client.post(ADD, filled(client, ADD, **sent)).status_code == 302
    flag = get_flag("colour", production)
    assert (flag.type, flag.default_variant, flag.off_variant) == ("number", "two", "one")
    assert [variant["value"] for variant in flag.variants] == [1, 2.5]
    assert flag.schema == {"maximum": 3}
    assert flag.prerequisites == [{"flag": "payments", "variants": ["blue"]}]
    assert (flag.tags, flag.owner) == (["shop", "q4"], "Ada")
    assert flag.expires_at == datetime(2027, 1, 1, 10, 30, tzinfo=UTC)
    assert only_change(after=before).source == Source.ADMIN


def test_change__saved_as_it_was__writes_nothing(flag: Flag) -> None:
    client = sign_in()
    before = revision()
    assert client.post(change_page(flag), filled(client, change_page(flag))).status_code == 302
    assert revision() == before


@pytest.mark.parametrize("at", [datetime(2027, 1, 1, 10, 30, 5, tzinfo=UTC), datetime(1, 1, 1, 0, 0, 0, 7, tzinfo=UTC)])
def test_change__of_an_expiry_finer_than_a_minute__keeps_it(flag: Flag, production: Environment, at: datetime) -> None:
    update_flag(key=flag.key, environment=production, changes={"expires_at": at}, actor=ACTOR, now=NOON)
    client = sign_in()
    form = client.get(change_page(flag)).context["adminform"].form
    shown = form.fields["expires_at"].widget.format_value(at)
    sent = filled(client, change_page(flag), expires_at=shown, owner="Grace")
    assert client.post(change_page(flag), sent).status_code == 302
    assert get_flag(flag.key, production).expires_at == at


def test_form__of_a_flag_that_expired_before_the_time_zone_began__is_shown(
    flag: Flag, production: Environment, settings: Any
) -> None:
    settings.TIME_ZONE = "America/Adak"
    first = datetime(1, 1, 1, tzinfo=UTC)
    update_flag(key=flag.key, environment=production, changes={"expires_at": first}, actor=ACTOR, now=NOON)
    client = sign_in()
    assert "The flag has expired." in text_of(client.get(change_page(flag)))
    assert client.get("/admin/flags/flag/").status_code == 200


def test_change__emptied__takes_the_properties_away(flag: Flag, production: Environment) -> None:
    client = sign_in()
    emptied = dict.fromkeys(("type", "variants", "tags", "owner", "expires_at"), "")
    assert client.post(change_page(flag), filled(client, change_page(flag), **emptied)).status_code == 302
    changed = get_flag(flag.key, production)
    assert (changed.type, changed.variants, changed.default_variant, changed.off_variant) == ("", [], "", "")
    assert (changed.tags, changed.owner, changed.expires_at) == ([], "", None)


def test_change__without_the_variant_that_was_served__serves_one_that_is_left(
    flag: Flag, production: Environment
) -> None:
    client = sign_in()
    sent = filled(client, change_page(flag), variants=json.dumps(COLOURS[:1]))
    assert client.post(change_page(flag), sent).status_code == 302
    assert get_flag(flag.key, production).off_variant == "blue"


def test_change__from_one_to_true__is_a_change(production: Environment) -> None:
    flag = create_flag(
        key="any", rules=[rule_about(1)], environment=production, actor=ACTOR, now=NOON
    )  # which Python takes for the same
    client = sign_in()
    sent = filled(client, change_page(flag), rules=json.dumps([rule_about(True)]))
    assert client.post(change_page(flag), sent).status_code == 302
    assert get_flag("any", production).rules[0]["conditions"][0]["value"] is True


def rule_about(value: object) -> dict[str, Any]:
    return {"type": "attribute", "conditions": [{"attribute": "beta", "operator": "equals", "value": value}]}


REFUSED = [
    ({"type": "string"}, "variants"),
    ({"type": "string", "variants": '[{"key": "a b", "value": "x"}]'}, "variants"),
    ({"type": "string", "variants": '[{"key": "a", "value": 1}]'}, "variants"),
    ({"type": "number", "variants": '[{"key": "a", "value": "1"}]'}, "variants"),
    ({"type": "object", "variants": '[{"key": "a", "value": "{"}]'}, "variants"),
    ({"type": "string", "variants": '[{"key": "a", "value": "x"}, {"key": "a", "value": "y"}]'}, "variants"),
    ({"type": "string", "variants": json.dumps(COLOURS), "off_variant": "red"}, "off_variant"),
    ({"type": "string", "variants": json.dumps(COLOURS), "default_variant": "red"}, "default_variant"),
    ({"type": "string", "variants": json.dumps(COLOURS), "schema": '{"maxLength": 5}'}, "variants"),
    ({"type": "string", "variants": json.dumps(COLOURS), "schema": '{"type": "nothing"}'}, "schema"),
    ({"prerequisites": '[{"flag": "nowhere"}]'}, "prerequisites"),
    ({"prerequisites": '[{"flag": "colour", "variants": ["red"]}]'}, "prerequisites"),
    ({"prerequisites": '[{"flag": "fresh"}]'}, "prerequisites"),
    ({"tags": ", ".join(["shop", "t" * 51])}, "tags"),
    ({"tags": "shop, shop"}, "tags"),
    ({"tags": "nul \0"}, "tags"),
    ({"owner": "o" * 201}, "owner"),
    ({"expires_at": "tomorrow"}, "expires_at"),
    ({"rules": '[{"type": "segment", "segment": "nobody"}]'}, "rules"),
    ({"rules": '[{"type": "percentage", "percentage": 5, "variant": "blue"}]'}, "rules"),
    ({"rules": '[{"type": "percentage", "percentage": 5, "salt": ""}]'}, "rules"),
    ({"rules": '[{"type": "percentage", "percentage": 5, "startAt": "soon"}]'}, "rules"),
]


def test_add__what_the_api_refuses__is_refused_at_the_same_field_in_the_same_words(
    subtests: pytest.Subtests, flag: Flag, api: Any
) -> None:
    client = sign_in()
    before = revision()
    for changes, field in REFUSED:
        with subtests.test(changes=changes, field=field):
            response = client.post(ADD, filled(client, ADD, **{"key": "fresh", **changes}))
            assert response.status_code == 200
            said = errors_of(response)[field]
            words = refusal_of_api(api, changes)
            assert any(word in error for error in said for word in words), (said, words)
            assert revision() == before


def refusal_of_api(api: Any, changes: dict[str, str]) -> list[str]:
    """Return what the API answers to the same flag."""
    names = {"off_variant": "offVariant", "default_variant": "defaultVariant", "expires_at": "expiresAt"}
    body: dict[str, Any] = {"key": "fresh"}
    for name, text in changes.items():
        is_json = name in ("variants", "schema", "prerequisites", "rules")
        words = [word.strip() for word in text.split(",")]
        body[names.get(name, name)] = json.loads(text) if is_json else words if name == "tags" else text
    answer = api.post("/v1/flags", body)
    assert answer.status_code == 400, answer.json()
    return [detail["message"] for detail in answer.json()["error"]["details"]]


def test_change__that_would_go_round_in_a_circle__says_so_at_the_prerequisites(
    flag: Flag, production: Environment
) -> None:
    other = create_flag(key="other", prerequisites=[{"flag": "colour"}], environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    sent = filled(client, change_page(flag), prerequisites=json.dumps([{"flag": other.key}]))
    response = client.post(change_page(flag), sent)
    assert "colour → other → colour" in errors_of(response)["prerequisites"][0]


def test_change__that_takes_a_variant_another_environment_serves__says_where(
    flag: Flag, staging: Environment, production: Environment
) -> None:
    serves_green = [{"type": "percentage", "percentage": 5, "variant": "green"}]
    update_flag(key=flag.key, environment=staging, changes={"rules": serves_green}, actor=ACTOR, now=NOON)
    client = sign_in()
    sent = filled(client, change_page(flag), variants=json.dumps(COLOURS[:1]))
    response = client.post(change_page(flag), sent)
    assert "rules[0].variant in staging" in errors_of(response)["__all__"][0]
    assert len(get_flag(flag.key, production).variants) == 2


def test_form__tells_in_each_folded_line_what_is_in_it(flag: Flag) -> None:
    shown = text_of(sign_in().get(change_page(flag)))
    assert "Values · text: blue, green" in shown
    assert "About · shop · Ada" in shown


def test_form__of_a_simple_flag__folds_all_else_away(production: Environment) -> None:
    page = sign_in().get(ADD).context["adminform"]
    assert [(fieldset.name, fieldset.is_collapsible) for fieldset in page] == [
        (None, False),
        ("Values", True),
        ("Prerequisites", True),
        ("About", True),
        (None, False),
    ]


def test_form__with_a_mistake_in_a_folded_part__unfolds_it(production: Environment) -> None:
    client = sign_in()
    response = client.post(ADD, filled(client, ADD, key="fresh", owner="o" * 201))
    folded = [fieldset.name for fieldset in response.context["adminform"] if fieldset.is_collapsible]
    assert folded == ["Values", "Prerequisites"]


def test_form__knows_the_flags_and_segments_to_choose_from(flag: Flag, production: Environment) -> None:
    create_segment(key="testers", actor=ACTOR, now=NOON)
    other = create_flag(key="other", environment=production, actor=ACTOR, now=NOON)
    page = sign_in().get(change_page(other)).content.decode()
    assert '<script id="hy-segments" type="application/json">["testers"]</script>' in page
    assert '<script id="hy-flags" type="application/json">{"colour": ["blue", "green"]}</script>' in page


def test_viewer__reads_values_in_words(flag: Flag) -> None:
    shown = text_of(sign_in("flags.view_flag").get(change_page(flag)))
    assert "text: blue, green" in shown
    assert "Owner Ada" in shown
