"""The admin pages of webhooks and their deliveries, and what the first page says of those that fail."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from config.models import Change, Delivery, Webhook
from config.webhooks import outbox
from config.webhooks import writes as changes
from tests.admin import AdminClient, errors_of, filled, sign_in, text_of
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/services/very-secret"
ADD, LIST, LOG = (
    reverse(f"admin:config_{page}") for page in ("webhook_add", "webhook_changelist", "delivery_changelist")
)


@pytest.fixture
def webhook() -> Webhook:
    return changes.create_webhook(name="chat", url=URL, actor=ACTOR, now=NOON)[0]


@pytest.fixture
def ada() -> AdminClient:
    return sign_in()


def page_of(webhook: Webhook, name: str = "change") -> str:
    return reverse(f"admin:config_webhook_{name}", args=[webhook.pk])


def test_add__webhook__shows_its_secret_this_once(ada: AdminClient) -> None:
    values = {"name": "chat", "url": URL, "environments": ["staging"], "kinds": ["flag"], "tags": "shop, web"}
    page = ada.post(ADD, filled(ada, ADD, **values, reason="for the team"))
    webhook = Webhook.objects.get()
    assert webhook.secret in page.content.decode()
    assert (webhook.environments, webhook.kinds, webhook.tags) == (["staging"], ["flag"], ["shop", "web"])
    assert Change.objects.of("webhook", webhook.pk)[0].reason == "for the team"
    for address in (page_of(webhook), page_of(webhook, "history"), LIST):
        assert webhook.secret not in ada.get(address).content.decode()


def test_add__private_address__is_refused_at_its_field(ada: AdminClient) -> None:
    page = ada.post(ADD, filled(ada, ADD, name="chat", url="https://169.254.169.254/latest"))
    [message] = errors_of(page)["url"]
    assert "private address" in message
    assert not Webhook.objects.exists()


def test_change__webhook__keeps_its_secret(ada: AdminClient, webhook: Webhook) -> None:
    page = page_of(webhook)
    assert ada.post(page, filled(ada, page, name="team", kinds=["metric"])).status_code == 302
    changed = Webhook.objects.get()
    assert (changed.name, changed.kinds, changed.secret) == ("team", ["metric"], webhook.secret)


def test_change__by_two_people__shows_both_versions(ada: AdminClient, webhook: Webhook) -> None:
    sent = filled(ada, page_of(webhook), name="mine")
    changes.update_webhook(webhook, changes={"name": "theirs"}, actor=ACTOR, now=NOON)
    page = ada.post(page_of(webhook), sent)
    assert page.status_code == 200
    assert "theirs" in text_of(page)
    assert Webhook.objects.get().name == "theirs"


def test_view__without_the_right_to_change__shows_no_path_of_the_url(webhook: Webhook) -> None:
    client = sign_in("config.view_webhook")
    for address in (page_of(webhook), LIST):
        page = client.get(address)
        assert "hooks.example.com" in text_of(page)
        assert "very-secret" not in page.content.decode()
    for name in ("send_test", "pause", "resume", "rotate"):
        assert client.post(page_of(webhook, name)).status_code == 403


def test_test__webhook__queues_a_message_and_leads_to_its_page(ada: AdminClient, webhook: Webhook) -> None:
    assert "Send a test to chat?" in text_of(ada.get(page_of(webhook, "send_test")))
    assert not Delivery.objects.exists()
    response = ada.post(page_of(webhook, "send_test"))
    delivery = Delivery.objects.get()
    assert response.url == reverse("admin:config_delivery_change", args=[delivery.pk])
    assert "Nothing was changed." in text_of(ada.get(response.url))


def test_pause_and_resume__webhook__are_offered_where_they_fit(ada: AdminClient, webhook: Webhook) -> None:
    for name, other in (("pause", "resume"), ("resume", "pause")):
        page = ada.get(page_of(webhook)).content.decode()
        assert page_of(webhook, name) in page
        assert page_of(webhook, other) not in page
        assert ada.post(page_of(webhook, name), {"reason": "because"}).status_code == 302
        assert (Webhook.objects.get().paused_at is not None) is (name == "pause")


def test_rotate__webhook__shows_the_new_secret_this_once(ada: AdminClient, webhook: Webhook) -> None:
    page = ada.post(page_of(webhook, "rotate"))
    rotated = Webhook.objects.get()
    assert rotated.secret != webhook.secret == rotated.previous_secret
    assert rotated.secret in page.content.decode()


def test_delete__webhook__removes_it(ada: AdminClient, webhook: Webhook) -> None:
    assert ada.post(page_of(webhook, "delete"), {"reason": "gone"}).url == LIST
    assert not Webhook.objects.exists()


def test_page__of_no_webhook__leads_to_the_overview(
    subtests: pytest.Subtests, ada: AdminClient, webhook: Webhook
) -> None:
    pages = {name: page_of(webhook, name) for name in ["send_test", "pause", "resume", "rotate", "delete", "change"]}
    webhook.delete()
    for name, address in pages.items():
        with subtests.test(name=name):
            assert ada.get(address).status_code == 302


# --- deliveries -------------------------------------------------------------------------------------------------------


@pytest.fixture
def failed(webhook: Webhook) -> Delivery:
    delivery = outbox.queue_test(webhook, NOON)
    made = {"at": "2026-01-31T12:00:00.000000Z", "status": 500, "problem": "the receiver did not accept it"}
    Delivery.objects.filter(pk=delivery.pk).update(state="failed", attempts=[{**made, "seconds": 0.25}])
    return delivery


def test_log__of_a_webhook__has_only_its_own(ada: AdminClient, webhook: Webhook, failed: Delivery) -> None:
    other = changes.create_webhook(name="other", url=URL, actor=ACTOR, now=NOON)[0]
    assert ada.get(page_of(webhook, "deliveries")).url == f"{LOG}?webhook={webhook.pk}"
    for query, number in (("", 1), (f"?webhook={webhook.pk}", 1), (f"?webhook={other.pk}", 0), ("?state=waiting", 0)):
        assert len(ada.get(f"{LOG}{query}").context["cl"].result_list) == number
    assert "status 500, the receiver did not accept it" in text_of(ada.get(LOG))


def test_delivery__page__shows_attempts_and_the_message(ada: AdminClient, failed: Delivery) -> None:
    page = text_of(ada.get(reverse("admin:config_delivery_change", args=[failed.pk])))
    assert "status 500, the receiver did not accept it, after 0.25 s" in page
    assert f"msg_{failed.pk}" in page


def test_again__failed_delivery__waits_again(ada: AdminClient, failed: Delivery) -> None:
    again = reverse("admin:config_delivery_again", args=[failed.pk])
    assert sign_in("config.view_delivery", "config.view_webhook", username="eve").post(again).status_code == 403
    assert "Send" in text_of(ada.get(again))
    ada.post(again)
    assert Delivery.objects.get().state == "waiting"


# --- the first page ---------------------------------------------------------------------------------------------------


def test_overview__failing_and_paused_webhooks__are_listed(ada: AdminClient, webhook: Webhook) -> None:
    assert "Failing webhooks" not in text_of(ada.get("/admin/"))
    Webhook.objects.update(failing_since=NOON)
    assert "chat has been failing since 31 Jan 2026" in text_of(ada.get("/admin/"))
    changes.pause_webhook(webhook, actor=ACTOR, now=NOON)
    page: Any = ada.get("/admin/")
    assert "chat has been paused since" in text_of(page)
    assert "Failing webhooks" not in text_of(sign_in("flags.view_flag", username="eve").get("/admin/"))
