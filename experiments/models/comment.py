"""The table of comments on experiments."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from uuid_utils.compat import uuid7

from experiments.models.experiment import Experiment

COMMENT_LENGTH = 4000


class Comment(models.Model):
    """What somebody wrote about an experiment. Only `experiments.lifecycle.comments` writes it.

    `author` is the name at that time. `user` is the account, by which the author may delete it; it is empty once the
    account is deleted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(
        Experiment, on_delete=models.CASCADE, related_name="comments", db_index=False, db_constraint=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_constraint=False
    )
    author = models.CharField(max_length=150)
    text = models.CharField(max_length=COMMENT_LENGTH)
    at = models.DateTimeField()

    class Meta:
        ordering = ("at", "id")
        indexes = (models.Index(fields=("experiment", "at", "id"), name="comment_by_time"),)

    def __str__(self) -> str:
        return f"Comment of {self.author}"
