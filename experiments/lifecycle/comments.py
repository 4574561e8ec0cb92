"""Comments on experiments. They are no configuration, so the change log does not have them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from config.errors import Detail, DetailCode, ValidationFailed
from experiments.models import COMMENT_LENGTH, Comment, Experiment


def add_comment(experiment: Experiment, *, user: Any, text: str, now: datetime) -> Comment:
    """Store a comment. Raises ValidationFailed if the text is empty, too long, or cannot be stored."""
    text = text.replace("\r\n", "\n").strip()
    if message := _refuse(text):
        raise ValidationFailed([Detail("text", DetailCode.INVALID_VALUE, message)])
    return Comment.objects.create(experiment=experiment, user=user, author=user.get_username(), text=text, at=now)


def delete_comment(experiment: Experiment, comment_id: UUID, *, user: Any) -> bool:
    """Delete a comment of this user, and return whether there was one."""
    deleted, _ = Comment.objects.filter(experiment=experiment, pk=comment_id, user=user).delete()
    return bool(deleted)


def _refuse(text: str) -> str:
    if not text:
        return "Write something first."
    if len(text) > COMMENT_LENGTH:
        return f"A comment has at most {COMMENT_LENGTH:,} characters. This one has {len(text):,}."
    return "A comment cannot contain this character: U+0000." if "\0" in text else ""
