"""The models that all apps use: environments, API keys, the change log, stored responses, and webhooks.

Only `config.access`, `config.change_log`, `config.database` and `config.webhooks` write them.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from config.documents import Document, StoredJSONDecoder
from config.slugs import KEY_LENGTH, KEY_PATTERN, REASON_LENGTH


class ReasonSetting(models.TextChoices):
    """Whether the admin asks for the reason of a change in an environment. The API never requires one."""

    NONE = "none", "Not asked"
    OPTIONAL = "optional", "Optional"
    REQUIRED = "required", "Required"


class EnvironmentQuerySet(models.QuerySet["Environment"]):
    def default(self) -> Environment:
        return self.get(is_default=True)


class Environment(models.Model):
    """Flag states, experiments, exposures and events of one environment are invisible in the others."""

    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    name = models.CharField(max_length=200)
    is_default = models.BooleanField(default=False)
    protected = models.BooleanField(default=False, db_default=False)
    """Whether the admin shows the environment in red, and asks before it switches flags there."""
    change_reason = models.CharField(
        max_length=10,
        choices=ReasonSetting.choices,
        default=ReasonSetting.OPTIONAL,
        db_default=ReasonSetting.OPTIONAL.value,
    )
    created_at = models.DateTimeField()

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        ordering = ("-is_default", "key")
        constraints = (
            models.UniqueConstraint(
                fields=("is_default",), condition=Q(is_default=True), name="environment_one_default"
            ),
            models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="environment_key_format"),
            models.CheckConstraint(
                condition=Q(change_reason__in=ReasonSetting.values), name="environment_change_reason_known"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def etag(self) -> str:
        """A digest of what can change, because the row does not store the revision of its last change."""
        properties = (self.name, self.is_default, self.protected, str(self.change_reason))
        return f'"{sha256(repr(properties).encode()).hexdigest()[:16]}"'


class Scope(models.TextChoices):
    """What a key may do; each scope includes those before it."""

    CLIENT = "client", "client: evaluate, assign, track"
    SERVER = "server", "server: client, and read everything"
    MANAGE = "manage", "manage: server, and write"

    def includes(self, other: Scope) -> bool:
        return _RANKS[self] >= _RANKS[other]


_RANKS = {scope: rank for rank, scope in enumerate(Scope)}


class ApiKey(models.Model):
    """A credential for one environment. Only the hash of its secret is stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="api_keys")
    scope = models.CharField(max_length=10, choices=Scope.choices)
    may_change_common = models.BooleanField(default=False, db_default=True)
    """Whether a key of scope `manage` may change what all environments share."""
    prefix = models.CharField(max_length=20)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        verbose_name_plural = "API keys"
        ordering = ("-created_at",)
        constraints = (models.CheckConstraint(condition=Q(scope__in=Scope.values), name="api_key_scope_known"),)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Source(models.TextChoices):
    """How a change was made."""

    API = "api", "API"
    ADMIN = "admin", "Admin"
    COMMAND = "command", "Command"


KINDS = ("api_key", "environment", "experiment", "flag", "group", "kill_switch", "metric", "segment", "user", "webhook")
"""The kinds of objects in the change log."""

SEGMENT = "segment"
SEGMENT_MEMBERS = "segment_members"
"""Changes of this kind have only the users who were added to a segment (`after`) or removed from it (`before`)."""


def kinds_of(kind: str) -> tuple[str, ...]:
    """Return the kinds of the changes of an object of this kind."""
    return (SEGMENT, SEGMENT_MEMBERS) if kind == SEGMENT else (kind,)


class ChangeQuerySet(models.QuerySet["Change"]):
    def since(self, revision: int) -> ChangeQuerySet:
        return self.filter(revision__gt=revision).order_by("revision")

    def with_time_of(self, revision: int) -> ChangeQuerySet:
        """Annotate changes with `known_at`: the time of the change with this revision, or None if the log lacks it."""
        known = Change.objects.filter(revision=revision).values("at")
        return self.annotate(known_at=models.Subquery(known))

    def of(self, kind: str, object_id: object) -> ChangeQuerySet:
        return self.filter(kind__in=kinds_of(kind), object_id=str(object_id)).order_by("-revision")

    def of_key(self, kind: str, key: str) -> ChangeQuerySet:
        """Return the changes of all objects that ever had this key, newest first. A key may be used again."""
        return self.filter(kind__in=kinds_of(kind), key=key).order_by("-revision")

    def of_write(self, change: Change) -> ChangeQuerySet:
        """Return all changes of the write that made this one, in the order of their revisions."""
        if change.write is None:
            return self.filter(revision=change.revision)
        return self.filter(at=change.at, write=change.write).order_by("revision")  # there is an index on the time

    def as_of(self, moment: datetime) -> ChangeQuerySet:
        """Filter to the changes up to this time, inclusive."""
        return self.filter(at__lte=moment)

    def latest_revision(self) -> int:
        return self.aggregate(revision=models.Max("revision"))["revision"] or 0


class Change(models.Model):
    """A change of one object. The rows are the history, and the newest revision is the version of the system."""

    revision = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=250)
    source = models.CharField(max_length=10, choices=Source.choices)
    reason = models.CharField(max_length=REASON_LENGTH, blank=True, default="")
    kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=40)
    key = models.CharField(max_length=200)
    environment = models.CharField(max_length=KEY_LENGTH, blank=True, default="")
    before: models.JSONField[Document | None, Any] = models.JSONField(decoder=StoredJSONDecoder, null=True)
    after: models.JSONField[Document | None, Any] = models.JSONField(decoder=StoredJSONDecoder, null=True)
    write = models.BigIntegerField(null=True)
    """The first revision of the write that made this change. A write may switch many flags. Old rows have None."""

    request = models.CharField(max_length=100, null=True)  # noqa: DJ001 (so that adding it rewrites no table)
    """The id of the request that made this change, as in its response and in the log of the server."""

    objects = ChangeQuerySet.as_manager()

    class Meta:
        ordering = ("-revision",)
        indexes = (
            models.Index(fields=("kind", "object_id", "-revision"), name="change_of_object"),
            models.Index(fields=("kind", "key", "-revision"), name="change_of_key"),
        )
        constraints = (
            models.CheckConstraint(condition=Q(source__in=Source.values), name="change_source_known"),
            models.CheckConstraint(
                condition=Q(before__isnull=False) | Q(after__isnull=False), name="change_has_a_document"
            ),
        )

    def __str__(self) -> str:
        return f"{self.revision}: {self.action} {self.kind} {self.key}"

    @property
    def object_kind(self) -> str:
        """The kind of the object that was changed."""
        return SEGMENT if self.kind == SEGMENT_MEMBERS else self.kind

    @property
    def action(self) -> str:
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "changed"


class IdempotencyKeyQuerySet(models.QuerySet["IdempotencyKey"]):
    def last_used_until(self, moment: datetime) -> IdempotencyKeyQuerySet:
        return self.filter(at__lte=moment)


class IdempotencyKey(models.Model):
    """The stored response to a request with an idempotency key.

    `id` is a digest of the key and its sender, `request` one of what was sent. A row that is
    visible to other transactions always has its response, because both are committed together.
    """

    id = models.CharField(primary_key=True, max_length=64)
    request = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(null=True)
    body = models.BinaryField(null=True)

    objects = IdempotencyKeyQuerySet.as_manager()

    def __str__(self) -> str:
        return self.id


class Epoch(models.Model):
    """One row with the number of the current epoch, for SQLite only (see
    `config.database.commit_order`).
    """

    number = models.BigIntegerField()

    def __str__(self) -> str:
        return str(self.number)


class WebhookFormat(models.TextChoices):
    """Who reads the bodies of a webhook."""

    PLAIN = "plain", "JSON, for programs"
    SLACK = "slack", "Slack"
    TEAMS = "teams", "Microsoft Teams"


class Webhook(models.Model):
    """An address that gets a message about each write of configuration, and which writes it gets.

    Empty `environments`, `kinds` or `tags` mean all. The secrets are stored as they are, because they sign messages.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    url = models.CharField(max_length=2000)
    format = models.CharField(max_length=10, choices=WebhookFormat.choices)
    environments: models.JSONField[list[str], list[str]] = models.JSONField(default=list, blank=True)
    kinds: models.JSONField[list[str], list[str]] = models.JSONField(default=list, blank=True)
    tags: models.JSONField[list[str], list[str]] = models.JSONField(default=list, blank=True)
    secret = models.CharField(max_length=100, editable=False)
    previous_secret = models.CharField(max_length=100, blank=True, default="", editable=False)
    previous_until = models.DateTimeField(null=True, editable=False)
    """Until when messages also have a signature by the previous secret."""
    revision = models.BigIntegerField(editable=False)
    """The last revision of the change log that was read. Later changes have no message yet."""
    paused_at = models.DateTimeField(null=True, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    """When the first attempt failed after the last one that succeeded."""
    version = models.BigIntegerField(editable=False)
    created_at = models.DateTimeField(editable=False)

    class Meta:
        ordering = ("name", "pk")
        constraints = (
            models.CheckConstraint(condition=Q(format__in=WebhookFormat.values), name="webhook_format_known"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waiting"
    DELIVERED = "delivered", "delivered"
    FAILED = "failed", "failed"


class Delivery(models.Model):
    """A message to a webhook: about the write whose first change has this `revision`, or a test without one.

    `due_at` is the time of the next attempt. A process that makes an attempt moves it into the future, so that no other
    process sends the message. `attempts` has only the latest ones.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    revision = models.BigIntegerField(null=True)
    summary = models.CharField(max_length=200)
    body = models.TextField()
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    created_at = models.DateTimeField(db_index=True)
    due_at = models.DateTimeField()
    give_up_at = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    attempts: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ("-id",)
        indexes = (models.Index(fields=("due_at",), condition=Q(state="waiting"), name="delivery_due"),)
        constraints = (
            models.UniqueConstraint(fields=("webhook", "revision"), name="delivery_once_a_write"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
        )

    def __str__(self) -> str:
        return self.summary
