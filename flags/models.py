"""Flags, their states by environment, segments, kill switches, usage and recent users.

Only `flags.changes` writes flags, states, segments and kill switches.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Cast, Coalesce, Greatest
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.models import Environment
from config.slugs import DESCRIPTION_LENGTH, KEY_LENGTH, KEY_PATTERN, NAME_LENGTH
from flags.engine.types import ValueType

TAG_LENGTH = 50


def _mentioning(rows: QuerySet[Any], column: str, key: str) -> QuerySet[Any]:
    """Return rows whose JSON contains this key as text, which both databases can search. Callers inspect these rows."""
    text = Cast(column, models.TextField())
    mentioning: QuerySet[Any] = rows.alias(text_to_search=text).filter(text_to_search__contains=f'"{key}"')
    return mentioning


class FlagQuerySet(QuerySet["Flag"]):
    def in_environment(self, environment: Environment) -> FlagQuerySet:
        """Annotate flags with `enabled`, `rules`, `updated_at` and `version` of one environment.

        Without a row for a younger environment, a flag is off and has no rules.
        """
        return self.annotate(  # type: ignore[no-redef]  # the model declares these attributes for its readers
            state=FilteredRelation("states", condition=Q(states__environment=environment)),
            enabled=Coalesce(F("state__enabled"), False),
            stored_rules=F("state__rules"),
            updated_at=Greatest(F("common_updated_at"), Coalesce(F("state__updated_at"), F("common_updated_at"))),
            version=Greatest(F("common_version"), Coalesce(F("state__version"), F("common_version"))),
        )

    def current(self) -> FlagQuerySet:
        return self.filter(archived_at=None)

    def archived(self) -> FlagQuerySet:
        return self.exclude(archived_at=None)

    def expired(self, now: datetime) -> FlagQuerySet:
        return self.filter(expires_at__lte=now)

    def unexpired(self, now: datetime) -> FlagQuerySet:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now))

    def tagged(self, tag: str) -> FlagQuerySet:
        return self.filter(tag_rows__name=tag)

    def naming(self, key: str) -> QuerySet[Flag]:
        """Return flags whose prerequisites may contain this key. Callers inspect the prerequisites."""
        return _mentioning(self, "prerequisites", key)


class Flag(models.Model):
    """A flag with the properties that all environments share. Missing properties are empty or None."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    type = models.CharField(
        max_length=10, blank=True, default="", choices=[(kind.value, kind.value) for kind in ValueType]
    )
    variants: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    off_variant = models.CharField(max_length=KEY_LENGTH, blank=True, default="")
    default_variant = models.CharField(max_length=KEY_LENGTH, blank=True, default="")
    schema: models.JSONField[dict[str, Any] | None, Any] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True
    )
    prerequisites: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    owner = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True)
    client_visible = models.BooleanField(default=True, db_default=True)
    archived_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    common_updated_at = models.DateTimeField(editable=False)
    common_version = models.BigIntegerField(editable=False)

    objects = FlagQuerySet.as_manager()

    # `in_environment` adds these attributes.
    enabled: bool
    stored_rules: list[dict[str, Any]] | None
    updated_at: Any
    version: int

    class Meta:
        ordering = ("key",)
        constraints = (
            models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="flag_key_format"),
            models.CheckConstraint(
                condition=Q(type__in=["", *(kind.value for kind in ValueType)]), name="flag_type_known"
            ),
        )

    def __str__(self) -> str:
        return self.key

    @property
    def rules(self) -> list[dict[str, Any]]:
        return self.stored_rules or []

    @property
    def tags(self) -> list[str]:
        return [tag.name for tag in self.tag_rows.all()]

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


class FlagTag(models.Model):
    """A tag of a flag. It is a row, because SQLite cannot search lists in JSON."""

    flag = models.ForeignKey(Flag, on_delete=models.CASCADE, related_name="tag_rows")
    name = models.CharField(max_length=TAG_LENGTH)

    class Meta:
        ordering = ("pk",)  # as they were sent
        constraints = (models.UniqueConstraint(fields=("name", "flag"), name="flag_tag_once_a_flag"),)

    def __str__(self) -> str:
        return self.name


class FlagStateQuerySet(QuerySet["FlagState"]):
    def naming(self, key: str) -> QuerySet[FlagState]:
        """Return states whose rules may contain this key of a segment or variant. Callers inspect the rules."""
        return _mentioning(self, "rules", key)


class FlagState(models.Model):
    """The state of a flag in one environment."""

    flag = models.ForeignKey(Flag, on_delete=models.CASCADE, related_name="states")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="flag_states")
    enabled = models.BooleanField(default=False)
    rules: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list
    )
    updated_at = models.DateTimeField()
    version = models.BigIntegerField()

    objects = FlagStateQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("flag", "environment"), name="flag_state_once_an_environment"),)

    def __str__(self) -> str:
        return f"{self.flag} in {self.environment}"


class SegmentQuerySet(QuerySet["Segment"]):
    def without_members(self) -> SegmentQuerySet:
        """Defer conditions and user ids, of which a segment may have 100,000."""
        return self.defer("conditions", "user_ids")

    def naming(self, key: str) -> QuerySet[Segment]:
        """Return segments whose conditions may contain this key, without user ids. Callers inspect the conditions."""
        return _mentioning(self.defer("user_ids"), "conditions", key)


class Segment(models.Model):
    """A set of users: those who are listed, and those who meet all conditions. All environments share it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    conditions: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    user_ids: models.JSONField[list[str], list[str]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    version = models.BigIntegerField(editable=False)

    objects = SegmentQuerySet.as_manager()

    class Meta:
        ordering = ("key",)
        constraints = (models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="segment_key_format"),)

    def __str__(self) -> str:
        return self.key

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


def hour_of(time: datetime) -> datetime:
    """Return the start of the hour in UTC."""
    return time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


class Usage(models.Model):
    """How often a flag was evaluated to an outcome in the hour that begins at `hour`.

    There is no foreign key to the flag, so that counting and deleting never wait for each other.
    """

    pk = models.CompositePrimaryKey("environment_id", "flag_key", "hour", "outcome")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+", db_index=False)
    flag_key = models.CharField(max_length=KEY_LENGTH)
    hour = models.DateTimeField()
    outcome = models.CharField(max_length=KEY_LENGTH)
    count = models.BigIntegerField()

    class Meta:
        indexes = (models.Index(fields=("hour",), name="usage_by_age"),)

    def __str__(self) -> str:
        return f"{self.flag_key} {self.outcome} at {self.hour}"


class LastUse(models.Model):
    """The last hour in which a flag was evaluated to an outcome, so that lists need not read `Usage`."""

    pk = models.CompositePrimaryKey("environment_id", "flag_key", "outcome")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+", db_index=False)
    flag_key = models.CharField(max_length=KEY_LENGTH)
    outcome = models.CharField(max_length=KEY_LENGTH)
    hour = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.flag_key} {self.outcome} until {self.hour}"


class RecentUser(models.Model):
    """A user in the sample of an environment.

    `position`: a hash, by which users are sampled.
    `attributes`: the values that rules read, by the names that rules use.
    `seen_at`: exact to the hour.
    """

    pk = models.CompositePrimaryKey("environment_id", "user_id")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+", db_index=False)
    user_id = models.CharField(max_length=NAME_LENGTH)
    position = models.BigIntegerField()
    attributes: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)
    seen_at = models.DateTimeField()

    class Meta:
        indexes = (models.Index(fields=("environment", "position"), name="recent_user_by_position"),)

    def __str__(self) -> str:
        return self.user_id


class RecentUserSampling(models.Model):
    """How the users of an environment are sampled: those at positions below `limit`, since `since`.

    Raising the limit sets `limit_before` and `raised_at`. For a week, only users below both limits are complete. Users
    recorded before `erased_at` are discarded, because one of them was erased then.
    """

    environment = models.OneToOneField(Environment, on_delete=models.CASCADE, related_name="+", primary_key=True)
    limit = models.BigIntegerField()
    since = models.DateTimeField()
    limit_before = models.BigIntegerField(null=True, default=None)
    raised_at = models.DateTimeField(null=True, default=None)
    erased_at = models.DateTimeField(null=True, default=None)

    def __str__(self) -> str:
        return f"the sample of {self.environment}"


class KillSwitch(models.Model):
    """A token that may switch certain flags off in one environment. Only its hash is stored.

    Flags are named by key, so that the token still works after a flag is deleted and created again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=NAME_LENGTH)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="kill_switches")
    flags: models.JSONField[list[str], list[str]] = models.JSONField(default=list)
    prefix = models.CharField(max_length=20, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    version = models.BigIntegerField(editable=False)
    created_at = models.DateTimeField(editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name_plural = "kill switches"
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return self.name

    @property
    def etag(self) -> str:
        return f'"{self.version}"'
