"""What somebody typed before their session ended fills the form again, once, and nothing is done with it by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from config.access.environments import update_environment
from config.models import ApiKey, Environment, ReasonSetting
from experiments.models import Experiment
from flags.changes.flag_changes import get_flag
from flags.models import Flag
from tests.admin import AdminClient, answer, errors_of, filled, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory
from tests.outage import statement_fails

pytestmark = pytest.mark.django_db

LOGIN, OVERVIEW = "/admin/login/", "/admin/"
PASSWORD = "a-long-Passphrase-1"
ENDED = "Your session expired, so nothing was saved."


def page_of(flag: Flag, page: str = "change") -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk])


def kept_in(page: Any) -> dict[str, str]:
    """Return what the page to sign in sends besides the name and the password."""
    found = re.search(r'<input type="hidden" name="kept" value="([^"]+)" form="login-form">', page.content.decode())
    return {"kept": found[1]} if found else {}


def sign_in_again(client: Client, page: Any, username: str = "ada") -> Any:
    """Send the page to sign in, and return the page to which it leads."""
    if not User.objects.filter(username=username).exists():
        User.objects.create_superuser(username)
    user = User.objects.get(username=username)
    user.set_password(PASSWORD)
    user.save()
    [action] = re.findall(r'<form action="([^"]+)" method="post" id="login-form">', page.content.decode())
    sent = {"username": username, "password": PASSWORD, **kept_in(page)}
    response = client.post(action.replace("&amp;", "&"), sent)
    assert response.status_code == 302
    return client.get(response.headers["Location"], follow=True)


def send_late(address: str, sent: dict[str, Any]) -> tuple[AdminClient, Any]:
    """Send a form whose session has ended. Return the client, and the page to sign in that it gets."""
    client = AdminClient()
    response = client.post(address, sent)
    assert (response.status_code, response.headers["Cache-Control"]) == (
        403,
        "max-age=0, no-cache, no-store, must-revalidate, private",
    )
    assert "Your session has ended, and nothing was saved." in text_of(response)
    return client, response


def refused_password(client: Client, page: Any) -> Any:
    return client.post(LOGIN, {"username": "ada", "password": "wrong", **kept_in(page)})


# --- forms -----------------------------------------------------------------------------------------------------------


def test_form__session_ended__is_filled_again_and_saved_when_sent() -> None:
    flag = FlagFactory(key="f")
    sent = filled(sign_in(), page_of(flag), description="Two\r\nlines & <more>", rules='[{"type": "percentage"')
    before = revision()
    client, login = send_late(page_of(flag), sent)
    page = sign_in_again(client, login)
    form = page.context["adminform"].form
    assert (form["description"].value(), form["rules"].value()) == (sent["description"], sent["rules"])
    assert messages_of(page)[0].startswith(ENDED)
    assert "Your input is back" in messages_of(page)[0]
    assert revision() == before
    again = {name: form[name].value() for name in form.fields} | {"rules": "[]"}
    assert client.post(page_of(flag), {name: value for name, value in again.items() if value}).status_code == 302
    assert only_change(after=before).actor == "user ada"
    assert get_flag("f", Environment.objects.get(key="production")).description == "Two\nlines & <more>"


def test_form__of_anything_new__is_filled_again() -> None:
    for name, sent in [
        ("flags_flag", {"key": "new", "rules": "[]", "client_visible": "on"}),
        ("flags_segment", {"key": "new", "user_ids": "u\r\nv"}),
        ("experiments_metric", {"key": "new", "type": "count", "event": "buy", "margin": "5"}),
        ("experiments_experiment", {"key": "new", "hypothesis": "Shorter is better", "variants": "[]"}),
        ("config_environment", {"key": "new", "name": "New", "protected": "on"}),
        ("config_apikey", {"name": "new", "scope": "server", "expires_at": "2099-01-31T12:00"}),
        ("auth_group", {"name": "new"}),
    ]:
        address = reverse(f"admin:{name}_add") + ("?all=true" if name == "experiments_experiment" else "")
        client, login = send_late(address, sent)
        form = sign_in_again(client, login).context["adminform"].form
        assert form.is_bound, (name, sent)
        assert {field: form.data[field] for field in sent} == sent, (name, sent)
        assert not any(
            model.objects.filter(**{column: "new"}) for model, column in ((Flag, "key"), (ApiKey, "name"))
        ), (name, sent)


def test_form__filled_again__is_empty_the_next_time() -> None:
    client, login = send_late(reverse("admin:flags_segment_add"), {"key": "new"})
    page = sign_in_again(client, login)
    assert page.context["adminform"].form["key"].value() == "new"
    again = client.get(reverse("admin:flags_segment_add"))
    assert not again.context["adminform"].form["key"].value()
    assert messages_of(again) == []


def test_form__filled_again__fills_no_other_form() -> None:
    client, login = send_late(reverse("admin:flags_segment_add"), {"key": "new"})
    User.objects.create_superuser("ada", password=PASSWORD)
    client.post(LOGIN, {"username": "ada", "password": PASSWORD, "next": OVERVIEW, **kept_in(login)})
    assert not client.get(reverse("admin:flags_flag_add")).context["adminform"].form["key"].value()


def test_form__database_fails_when_it_is_filled_again__is_filled_the_next_time() -> None:
    address = reverse("admin:flags_segment_add")
    client, login = send_late(address, {"key": "new"})
    User.objects.create_superuser("ada", password=PASSWORD)
    client.post(f"{LOGIN}?next={address}", {"username": "ada", "password": PASSWORD, **kept_in(login)})
    with statement_fails(2):
        assert client.get(address).status_code == 503
    assert client.get(address).context["adminform"].form["key"].value() == "new"


def test_form__wrong_password_first__is_filled_again_after_the_right_one() -> None:
    sign_in()
    client, login = send_late(reverse("admin:flags_segment_add"), {"key": "new"})
    refused = refused_password(client, login)
    assert "Your session has ended" in text_of(refused)
    assert kept_in(refused) == kept_in(login)


def test_form__somebody_else_signs_in__needs_their_rights() -> None:
    address = reverse("admin:flags_segment_add")
    client, login = send_late(address, {"key": "new"})
    sign_in("flags.view_flag", username="eve")
    assert sign_in_again(client, login, username="eve").status_code == 403
    assert "kept_input" not in client.session


def test_form__of_another_environment__is_filled_again_there() -> None:
    client, login = send_late(reverse("admin:flags_flag_add"), {"key": "new", "opened_in": "staging"})
    page = sign_in_again(client, login)
    assert page.context["current_environment"].key == "staging"


@pytest.mark.parametrize("name", ["auth_user_add", "password_change"])
def test_passwords__are_never_kept(name: str) -> None:
    names = ("password1", "password2", "old_password", "new_password1", "new_password2")
    client, login = send_late(reverse(f"admin:{name}"), {"username": "eve", **dict.fromkeys(names, "secret-1")})
    page = sign_in_again(client, login)
    assert "secret-1" not in page.content.decode()
    assert "secret-1" not in str(client.session.items())


def test_form__changed_on_the_way__is_not_filled_again() -> None:
    User.objects.create_superuser("ada", password=PASSWORD)
    client, login = send_late(reverse("admin:flags_segment_add"), {"key": "new"})
    forged = kept_in(login)["kept"][:-1] + "!"
    client.post(LOGIN, {"username": "ada", "password": PASSWORD, "kept": forged})
    assert "kept_input" not in client.session


def test_form__too_long_to_be_kept__says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.admin.kept_input._MAX_CHARACTERS", 50)
    response = AdminClient().post(reverse("admin:flags_segment_add"), {"user_ids": "\n".join(map(str, range(100)))})
    assert kept_in(response) == {}
    assert "too long to be kept: go back in your browser to copy it" in text_of(response)


def test_form__of_many_users__is_filled_again() -> None:
    ids = "\r\n".join(f"user-{number:032x}" for number in range(0, 100_000 * 7919, 7919))
    client, login = send_late(reverse("admin:flags_segment_add"), {"key": "crowd", "user_ids": ids})
    assert sign_in_again(client, login).context["adminform"].form["user_ids"].value() == ids


def test_read__session_ended__leads_to_the_page_to_sign_in() -> None:
    response = AdminClient().get(reverse("admin:flags_segment_add"))
    assert (response.status_code, response.headers["Location"]) == (302, f"{LOGIN}?next=/admin/flags/segment/add/")


# --- buttons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_protected", [True, False])
def test_switch__session_ended__asks_before_it_is_made(production: Environment, is_protected: bool) -> None:
    update_environment(production, protected=is_protected, actor=ACTOR, now=NOON)
    flag = FlagFactory(key="f")
    client, login = send_late(page_of(flag, "toggle"), {"switch": "production:on"})
    before = revision()
    question = sign_in_again(client, login)
    assert "Switch on f?" in text_of(question)
    assert revision() == before
    response = answer(client, question)
    assert response.status_code == 302
    assert get_flag("f", production).enabled is True


def test_switch__made_by_somebody_meanwhile__says_so() -> None:
    flag = FlagFactory(key="f", on=True)
    client, login = send_late(page_of(flag, "toggle"), {"switch": "production:on"})
    page = sign_in_again(client, login)
    assert page.redirect_chain[-1][0] == reverse("admin:flags_flag_changelist")
    assert "The flag is in this state already, so nothing was changed." in messages_of(page)


@pytest.mark.parametrize("across", ["0", "1"])
def test_action_of_a_list__session_ended__asks_before_it_is_done(production: Environment, across: str) -> None:
    flags = [FlagFactory(key=key) for key in ("one", "two")]
    address = f"{reverse('admin:flags_flag_changelist')}?q=o"
    sent = {"action": "production:on", "_selected_action": [str(flag.pk) for flag in flags], "select_across": across}
    client, login = send_late(address, sent)
    before = revision()
    question = sign_in_again(client, login)
    assert "Switch on in Production?" in text_of(question)
    assert ("one two" if across == "0" else "all flags of the list") in text_of(question)
    assert revision() == before
    again = answer(client, question)
    assert "Switch on 2 flags?" in text_of(again)
    answer(client, again, typed_name="production")
    assert get_flag("one", production).enabled
    assert get_flag("two", production).enabled


def test_action_of_a_list__with_what_is_no_id__asks_all_the_same() -> None:
    sent = {"action": "production:on", "_selected_action": ["x"]}
    client, login = send_late(reverse("admin:flags_flag_changelist"), sent)
    assert "Switch on in Production?" in text_of(sign_in_again(client, login))


@pytest.mark.parametrize(
    "name",
    ["flags_flag_toggle", "flags_flag_promote_selected", "switch_environment", "experiments_experiment_comment"],
)
def test_button__address_opened_by_itself__leads_to_a_page(name: str) -> None:
    made = {"flags_flag_toggle": FlagFactory, "experiments_experiment_comment": ExperimentFactory}.get(name)
    arguments = [made(key="f").pk] if made else []
    response = sign_in().get(reverse(f"admin:{name}", args=arguments), follow=True)
    assert response.status_code == 200
    assert response.redirect_chain


def test_environment__switched_after_the_session__is_not_switched() -> None:
    client, login = send_late("/admin/config/environment/switch/", {"environment": "staging", "next": "/admin/"})
    page = sign_in_again(client, login)
    assert page.redirect_chain[-1][0] == "/admin/"
    assert page.context["current_environment"].key == "production"
    assert client.get("/admin/config/environment/switch/?environment=staging").url == "/admin/"
    assert client.get("/admin/").context["current_environment"].key == "production"


def test_promotion__session_ended__shows_the_same_flags_again() -> None:
    FlagFactory(key="one"), FlagFactory(key="two")
    sent = {"flags": "one,two", "way": "production:staging", "seen": "x", "reason": "Ready", "opened_in": "production"}
    client, login = send_late("/admin/flags/flag/promote/", sent)
    before = revision()
    page = sign_in_again(client, login)
    assert (page.context["keys"], page.context["way"].name) == (["one", "two"], "production:staging")
    assert page.context["reason"] == "Ready"
    assert revision() == before


def test_step__session_ended__is_filled_again() -> None:
    experiment = ExperimentFactory(key="e", running=True)
    address = reverse("admin:experiments_experiment_new_phase", args=[experiment.pk])
    sent = {"weight_0": "30", "weight_1": "70", "conditions": "[]", "reason": "More", "opened_in": "production"}
    client, login = send_late(address, sent)
    form = sign_in_again(client, login).context["form"]
    assert (form["weight_1"].value(), form["reason"].value()) == ("70", "More")
    assert len(Experiment.objects.get().phases) == 1


def test_ship_form__session_ended__is_filled_again() -> None:
    experiment = ExperimentFactory(key="e", running=True)
    address = reverse("admin:experiments_experiment_ship", args=[experiment.pk])
    sent = {"winner": "green", "reason": "Clear after two weeks", "opened_in": "production"}
    client, login = send_late(address, sent)
    form = sign_in_again(client, login).context["form"]
    assert (form["winner"].value(), form["reason"].value()) == ("green", "Clear after two weeks")
    assert Experiment.objects.get().status == "running"
    client.post(address, sent)
    assert (Experiment.objects.get().status, Experiment.objects.get().winner) == ("stopped", "green")


def test_comment__session_ended__is_in_its_form_again() -> None:
    experiment = ExperimentFactory(key="e", running=True)
    comment, results = (
        reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk]) for page in ("comment", "results")
    )
    client, login = send_late(f"{comment}?comments=2", {"text": "Why\r\n<so>?", "opened_in": "production"})
    page = sign_in_again(client, login)
    assert page.request["PATH_INFO"] == results
    assert page.context["comments"].typed == "Why\r\n<so>?"
    assert page.context["comments"].number == 2
    assert not experiment.comments.exists()
    assert client.get(results).context["comments"].typed == ""


def test_guided_step__session_ended__is_filled_again() -> None:
    experiment = ExperimentFactory(key="e")
    address = reverse("admin:experiments_experiment_guided", args=[experiment.pk, "hypothesis"])
    client, login = send_late(address, {"hypothesis": "Shorter is better", "opened_in": "production"})
    form = sign_in_again(client, login).context["form"]
    assert form["hypothesis"].value() == "Shorter is better"
    assert Experiment.objects.get().hypothesis == ""


def test_confirmation__session_ended__has_its_reason_again(production: Environment) -> None:
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    flag = FlagFactory(key="f")
    client, login = send_late(page_of(flag, "archive"), {"reason": "No longer used", "opened_in": "production"})
    assert 'value="No longer used"' in sign_in_again(client, login).content.decode()
    assert Flag.objects.get().archived_at is None


def test_question__session_ended_before_the_answer__is_asked_again_when_the_form_is_sent() -> None:
    flag = FlagFactory(key="f")
    sent = filled(sign_in(), page_of(flag), enabled=True) | {"agreed": "f is on"}
    client, login = send_late(page_of(flag), sent)
    form = sign_in_again(client, login).context["adminform"].form
    assert "agreed" not in form.data
    again = {name: form[name].value() for name in form.fields if form[name].value()}
    assert "Switch on f?" in text_of(client.post(page_of(flag), again))


def test_forced_variant__session_ended__asks_before_it_is_forced() -> None:
    experiment = ExperimentFactory(key="e")
    address = f"{reverse('admin:experiments_experiment_user_force')}?id=u"
    client, login = send_late(address, {"forced": f"e:{experiment.variant_keys[1]}", "opened_in": "production"})
    question = sign_in_again(client, login)
    assert f"Force {experiment.variant_keys[1]} for u?" in text_of(question)
    assert Experiment.objects.get().forced_variants == {}
    answer(client, question)
    assert Experiment.objects.get().forced_variants == {"u": experiment.variant_keys[1]}


def test_errors__of_a_form_filled_again__are_shown() -> None:
    client, login = send_late(reverse("admin:flags_segment_add"), {"description": "No key yet"})
    assert "key" in errors_of(sign_in_again(client, login))
