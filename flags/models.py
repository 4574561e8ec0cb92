"""Flags and their state in each environment. They are written by `flags.changes` alone."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.keys import KEY_LENGTH, KEY_PATTERN
from config.models import Environment

DESCRIPTION_LENGTH = 2000


class FlagQuerySet(QuerySet["Flag"]):
    def in_environment(self, environment: Environment) -> FlagQuerySet:
        """Each flag with what is particular to one environment: `enabled`, `rules`, `updated_at` and `version`.

        Where a flag has no state of its own (the environment is younger than the flag) it is off and has no rules.
        """
        return self.annotate(  # type: ignore[no-redef]  # the model declares what is added here, for its readers
            state=FilteredRelation("states", condition=Q(states__environment=environment)),
            enabled=Coalesce(F("state__enabled"), False),
            stored_rules=F("state__rules"),
            updated_at=Greatest(F("common_updated_at"), Coalesce(F("state__updated_at"), F("common_updated_at"))),
            version=Greatest(F("common_version"), Coalesce(F("state__version"), F("common_version"))),
        )


class Flag(models.Model):
    """What all environments share of a flag."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    created_at = models.DateTimeField(editable=False)
    common_updated_at = models.DateTimeField(editable=False)
    common_version = models.BigIntegerField(editable=False)

    objects = FlagQuerySet.as_manager()

    # what `in_environment` adds
    enabled: bool
    stored_rules: list[dict[str, Any]] | None
    updated_at: Any
    version: int

    class Meta:
        ordering = ("key",)
        constraints = (models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="flag_key_format"),)

    def __str__(self) -> str:
        return self.key

    @property
    def rules(self) -> list[dict[str, Any]]:
        return self.stored_rules or []

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


class FlagState(models.Model):
    """What one environment has of a flag: whether it is on there, and its rules."""

    flag = models.ForeignKey(Flag, on_delete=models.CASCADE, related_name="states")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="flag_states")
    enabled = models.BooleanField(default=False)
    rules: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list
    )
    updated_at = models.DateTimeField()
    version = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("flag", "environment"), name="flag_state_once_an_environment"),)

    def __str__(self) -> str:
        return f"{self.flag} in {self.environment}"
