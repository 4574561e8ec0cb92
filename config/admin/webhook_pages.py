"""The admin pages of webhooks and of the log of their deliveries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Max, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget, UnfoldAdminURLInputWidget

from config.admin.columns import column, time_cell
from config.admin.filters import ChoiceFilter, MenuFilter
from config.admin.forms import DomainForm, TextField, WordsField
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.admin.site import Confirmation, DomainAdmin, ReadOnly, button, writer
from config.admin.template_filters import minute
from config.change_log.descriptions import name_kind
from config.change_log.reversion import Irreversible, reversibles
from config.models import KINDS, Delivery, DeliveryState, Environment, Webhook, WebhookFormat
from config.timestamps import parse_timestamp
from config.webhooks import outbox
from config.webhooks import writes as changes

_STATES = {"active": "success", "failing": "danger", "paused": "warning"}
_DELIVERY_STATES = {"delivered": "success", "waiting": "info", "failed": "danger"}


def state_of(webhook: Webhook) -> str:
    if webhook.paused_at is not None:
        return "paused"
    return "failing" if webhook.failing_since is not None else "active"


def describe_failing(now: datetime) -> Iterator[tuple[Webhook, str]]:
    """Yield webhooks that fail or are paused, with the reason, for the first page of the admin."""
    for webhook in Webhook.objects.filter(Q(failing_since__isnull=False) | Q(paused_at__isnull=False)):
        since = webhook.paused_at or webhook.failing_since
        words = "has been paused" if webhook.paused_at else "has been failing"
        assert since is not None  # noqa: S101 (the query asks for it)
        yield webhook, format_html("{} since {}", words, minute(since))


class WebhookForm(DomainForm):
    name = TextField(required=True, help_text="What gets the messages, such as deployments channel.")
    url = TextField(
        required=True,
        label="URL",
        widget=UnfoldAdminURLInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Where messages are sent, by POST. The change log and this log show it without its path.",
    )
    format = forms.ChoiceField(choices=WebhookFormat.choices, widget=UnfoldAdminSelectWidget())
    environments = forms.MultipleChoiceField(
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text="Send only changes in these environments, and those that all environments share. None means all.",
    )
    kinds = forms.MultipleChoiceField(
        required=False,
        choices=[(kind, name_kind(kind)) for kind in KINDS],
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text="Send only changes of these objects. None means all.",
    )
    tags = WordsField(
        help_text="Send only changes of flags with one of these tags, separated by commas. Empty means all changes."
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if "environments" in self.fields:
            choices = [(environment.key, environment.name) for environment in Environment.objects.all()]
            self.fields["environments"].choices = choices  # type: ignore[attr-defined]  # of this field


class SendsMessages(DomainAdmin):
    """Pages with buttons that send messages. That is not a change and needs no reason."""

    def ask_and_send(
        self, request: HttpRequest, obj: Any, confirmation: Confirmation, act: Callable[[], Delivery]
    ) -> HttpResponse:
        if request.method == "POST":
            delivery = act()
            messages.info(request, "The message is being sent. Reload this page to see what came of it.")
            return HttpResponseRedirect(reverse("admin:config_delivery_change", args=[delivery.pk]))
        context = {"confirmation": confirmation, "original": obj, "title": confirmation.title}
        context["back"] = self.address_of("change", obj.pk)
        return self.page(request, "admin/config/webhook/send.html", context)

    def has_send_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return bool(request.user.has_perm("config.change_webhook"))


reversibles[changes.KIND] = Irreversible(
    "A webhook has no undo, because messages may have left by now; set it back by hand."
)


@admin.register(Webhook)
class WebhookAdmin(SendsMessages):
    kind = changes.KIND
    form = WebhookForm
    list_display = ("name", "shown_host", "format", "shown_filters", "state", "shown_last")
    search_fields = ("name",)
    ordering = ("name",)
    actions_detail = ("deliveries", "send_test", "pause", "resume", "rotate")

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        webhook = self.find(request, str(object_id))
        hidden = "pause" if webhook and webhook.paused_at else "resume"
        actions = super().get_actions_detail(request, object_id)
        return [action for action in actions if action.action_name != f"config_webhook_{hidden}"]

    def for_list(self, queryset: Any) -> Any:
        return queryset.annotate(last_at=Max("deliveries__created_at"))

    @column("Receiver")
    def shown_host(self, webhook: Webhook) -> str:
        return urlsplit(webhook.url).netloc

    @column("Gets changes of")
    def shown_filters(self, webhook: Webhook) -> str:
        kinds = ", ".join(f"{kind.replace('_', ' ')}s" for kind in webhook.kinds) or "everything"
        tags = f" tagged {' or '.join(webhook.tags)}" if webhook.tags else ""
        where = f" in {', '.join(webhook.environments)}" if webhook.environments else ""
        return f"{kinds}{tags}{where}"

    @column("State", label=_STATES)
    def state(self, webhook: Webhook) -> str:
        return state_of(webhook)

    @column("Last message", empty_value="none yet")
    def shown_last(self, webhook: Any) -> SafeString | None:
        return time_cell(webhook.last_at)

    def get_fieldsets(self, request: HttpRequest, obj: Webhook | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["name", "shown_host", "format", "shown_filters", "state"]})]
        state = [] if obj is None else ["state"]
        return [(None, {"fields": [*state, *changes.VALUES, "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Webhook | None = None) -> Any:
        return ["state", "shown_host", "shown_filters"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"format": WebhookFormat.PLAIN}

    def loaded(self, request: HttpRequest, obj: Webhook | None) -> dict[str, Any]:
        return {} if obj is None else {"version": obj.etag}

    def document_of(self, request: HttpRequest, obj: Webhook) -> dict[str, Any]:
        return changes.webhook_as_json(obj)

    def write(self, request: HttpRequest, obj: Webhook, values: dict[str, Any], *, is_new: bool) -> Webhook:
        if not is_new:
            return self.rewrite(request, obj, values)
        chosen = {name: values[name] for name in (*changes.VALUES, "reason")}
        webhook, request.secret = changes.create_webhook(**chosen, **writer(request))  # type: ignore[attr-defined]  # ours
        return webhook

    def rewrite(self, request: HttpRequest, obj: Webhook, values: dict[str, Any]) -> Webhook:
        new = {name: values[name] for name in changes.VALUES}
        known = {"reason": values["reason"], "if_match": values["version"]}
        return changes.update_webhook(obj, changes=new, **known, **writer(request))

    def remove(self, request: HttpRequest, obj: Webhook, reason: str) -> None:
        changes.delete_webhook(obj, reason=reason, **writer(request))

    def deletion(self, request: HttpRequest, obj: Webhook) -> Confirmation:
        consequences = ("Messages that wait are not sent.", "The log of its deliveries is deleted, too.")
        return Confirmation(f"Delete {obj}?", consequences, "Delete")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A webhook passes on the change log, so this requires the permission to view it."""
        return bool(super().has_add_permission(request) and request.user.has_perm("config.view_change"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(super().has_change_permission(request, obj) and request.user.has_perm("config.view_change"))

    def response_add(self, request: HttpRequest, obj: Webhook, post_url_continue: str | None = None) -> HttpResponse:
        """Return a page with the secret, which is not shown again."""
        return self._show_secret(request, obj, getattr(request, "secret", ""))

    def _show_secret(self, request: HttpRequest, webhook: Webhook, secret: str) -> HttpResponse:
        context = {"original": webhook, "secret": secret, "title": "Copy the secret now"}
        return self.page(request, "admin/config/webhook/secret.html", context)

    @button("Deliveries", permission="view", icon="list_alt")
    def deliveries(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(f"{reverse('admin:config_delivery_changelist')}?webhook={object_id}")

    @button("Send a test", permission="send", icon="send")
    def send_test(self, request: HttpRequest, object_id: str) -> HttpResponse:
        webhook = self.find(request, object_id)
        if webhook is None:
            return self.missing(request, object_id)
        consequences = ["It gets a message that says that it is a test, and that nothing was changed."]
        if webhook.paused_at is not None:
            consequences.append("The webhook is paused, so the message waits until you resume it.")
        confirmation = Confirmation(f"Send a test to {webhook}?", consequences, "Send", is_dangerous=False)
        return self.ask_and_send(request, webhook, confirmation, lambda: outbox.queue_test(webhook, timezone.now()))

    @button("Pause", permission="send", icon="pause")
    def pause(self, request: HttpRequest, object_id: str) -> HttpResponse:
        consequences = (
            "Nothing is sent until you resume it.",
            "Then it gets what it missed, but nothing that is older than three days.",
        )
        return self._switch(request, object_id, "Pause", consequences, changes.pause_webhook)

    @button("Resume", permission="send", icon="play_arrow")
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        consequences = ("It gets the changes of the last three days that it missed, and those from now on.",)
        return self._switch(request, object_id, "Resume", consequences, changes.resume_webhook)

    def _switch(
        self,
        request: HttpRequest,
        object_id: str,
        verb: str,
        consequences: tuple[str, ...],
        act: Callable[..., Webhook],
    ) -> HttpResponse:
        webhook = self.find(request, object_id)
        if webhook is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(f"{verb} {webhook}?", consequences, verb, is_dangerous=False)
        done = f"The webhook {webhook} is {verb.removesuffix('e').lower()}ed."
        return self.confirm(
            request, webhook, confirmation, lambda: act(webhook, reason=reason_of(request), **writer(request)), done
        )

    @button("New secret", permission="send", icon="key")
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        webhook = self.find(request, object_id)
        if webhook is None:
            return self.missing(request, object_id)
        if request.method == "POST" and not lacks_reason(request, reason_setting(self, request)):
            rotated, secret = changes.rotate_secret(webhook, reason=reason_of(request), **writer(request))
            return self._show_secret(request, rotated, secret)
        consequences = (
            "Messages have signatures by both secrets for 24 hours: replace the old one at the receiver meanwhile.",
            "After that, the old secret signs nothing.",
        )
        confirmation = Confirmation(f"Make a new secret for {webhook}?", consequences, "Make a new secret")
        return self.confirm(request, webhook, confirmation, _never, "")


def _never() -> None:
    raise PermissionDenied


class WebhookFilter(MenuFilter):
    title = "webhook"
    parameter_name = "webhook"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(webhook.pk), webhook.name) for webhook in Webhook.objects.all()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(webhook=self.value()) if self.value() else queryset


class DeliveryStateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(DeliveryState.choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(state=self.value()) if self.value() else queryset


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, SendsMessages):
    kind = "delivery"
    list_display = ("summary", "shown_webhook", "shown_creation", "shown_state", "shown_last")
    list_filter = (WebhookFilter, DeliveryStateFilter)
    list_select_related = ("webhook",)
    ordering = ("-id",)
    sortable_by = ()
    actions_detail_hide_default = True
    actions_detail = ("again",)
    fields = (
        *("summary", "shown_webhook", "shown_id", "shown_creation"),
        *("shown_state", "shown_next", "shown_attempts", "shown_body"),
    )
    readonly_fields = fields

    @column("Webhook")
    def shown_webhook(self, delivery: Delivery) -> SafeString:
        address = reverse("admin:config_webhook_change", args=[delivery.webhook_id])
        return format_html('<a href="{}">{}</a>', address, delivery.webhook.name)

    @column("Written")
    def shown_creation(self, delivery: Delivery) -> SafeString | None:
        return time_cell(delivery.created_at)

    @column("State", label=_DELIVERY_STATES)
    def shown_state(self, delivery: Delivery) -> str:
        return delivery.state

    @column("Last attempt", empty_value="none yet")
    def shown_last(self, delivery: Delivery) -> str | None:
        return _describe_attempt(delivery.attempts[-1]) if delivery.attempts else None

    @column("webhook-id")
    def shown_id(self, delivery: Delivery) -> SafeString:
        return format_html("<code>{}</code>", outbox.message_id(delivery))

    @column("Next attempt", empty_value="none")
    def shown_next(self, delivery: Delivery) -> SafeString | None:
        return time_cell(delivery.due_at) if delivery.state == DeliveryState.WAITING else None

    @column("Attempts", empty_value="none yet")
    def shown_attempts(self, delivery: Delivery) -> SafeString | None:
        rows = [
            (minute(parse_timestamp(attempt["at"])), _describe_attempt(attempt), attempt["seconds"])
            for attempt in reversed(delivery.attempts)
        ]
        lines = format_html_join("", "<li>{}: {}, after {} s</li>", rows)
        return format_html('<ol class="hy-attempts">{}</ol>', lines) if rows else None

    @column("Body")
    def shown_body(self, delivery: Delivery) -> SafeString:
        pretty = json.dumps(json.loads(delivery.body), indent=2, ensure_ascii=False)
        return format_html('<pre class="hy-body"><code>{}</code></pre>', pretty)

    def for_list(self, queryset: Any) -> Any:
        return queryset.defer("body")

    @button("Send again", permission="send", icon="replay")
    def again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        delivery: Delivery | None = self.find(request, object_id)
        if delivery is None:
            return self.missing(request, object_id)

        def act() -> Delivery:
            outbox.send_again(delivery, timezone.now())
            return delivery

        consequences = ("The message is the same, with the same webhook-id, so that the receiver can recognise it.",)
        confirmation = Confirmation(f"Send “{delivery}” again?", consequences, "Send again", is_dangerous=False)
        return self.ask_and_send(request, delivery, confirmation, act)


def _describe_attempt(attempt: dict[str, Any]) -> str:
    status = f"status {attempt['status']}" if attempt["status"] else ""
    return ", ".join(part for part in (status, attempt["problem"]) if part)
