"""The body of a message: a write with its changes in words, as JSON for programs or as text for a chat."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any

from config.change_log.descriptions import DescribedChange, describe_change
from config.models import Change, WebhookFormat
from config.timestamps import format_timestamp

MAX_CHANGES = 50
"""In one message. Further changes are only counted."""
_MAX_CHANGES_IN_CHAT, _MAX_LINES_IN_CHAT = 10, 8
_MAX_LINE_LENGTH_IN_CHAT = 200
_MAX_BYTES_IN_TEAMS = 12_000
"""Teams accepts more than 28 KB but posts nothing. It counts bytes of its own format, which is longer."""


@dataclass(slots=True)
class Message:
    """A write: its first changes, and how many more there are."""

    changes: list[DescribedChange] = field(default_factory=list)
    more: int = 0

    def add(self, change: Change) -> None:
        if len(self.changes) < MAX_CHANGES:
            self.changes.append(describe_change(change))
        else:
            self.more += 1

    @property
    def first(self) -> Change:
        return self.changes[0].change

    @property
    def summary(self) -> str:
        """Return one line for lists, such as `flag new-checkout changed`."""
        described = self.changes[0]
        others = len(self.changes) + self.more - 1
        return f"{_name(described)[:150]} {described.action}{f' and {others:,} more' if others else ''}"


def render(message: Message, form: str) -> str:
    """Return the body of a message about a write."""
    if form == WebhookFormat.PLAIN:
        return _as_json(_envelope("configuration.changed", message.first.at, _data(message)))
    return _CHATS[form](list(_lines(message)))


def render_test(form: str, name: str, now: datetime) -> str:
    """Return the body of a test message."""
    text = f"This is a test of the webhook {name}. Nothing was changed."
    if form == WebhookFormat.PLAIN:
        return _as_json(_envelope("test", now, {"message": text}))
    return _CHATS[form]([text])


def _envelope(kind: str, timestamp: datetime, data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": kind, "timestamp": format_timestamp(timestamp), "data": data}


def _data(message: Message) -> Mapping[str, Any]:
    first = message.first
    return {
        "revision": first.revision,
        "actor": first.actor,
        "source": first.source,
        "reason": first.reason,
        "changes": [_change(described) for described in message.changes],
        "moreChanges": message.more,
    }


def _change(described: DescribedChange) -> Mapping[str, Any]:
    change = described.change
    return {
        "revision": change.revision,
        "action": described.action,
        "object": {"kind": change.object_kind, "id": change.object_id, "key": change.key},
        "environment": change.environment or None,
        "differences": described.lines,
    }


def _lines(message: Message) -> Iterator[str]:
    first = message.first
    shown = message.changes[:_MAX_CHANGES_IN_CHAT]
    for described in shown:
        where = f" in {described.change.environment}" if described.change.environment else ""
        yield f"{first.actor} {described.action} {_name(described)}{where}"
        if described.action == "changed":
            yield from _differences(described.lines)
    if others := len(message.changes) + message.more - len(shown):
        yield f"and {others:,} more changes"
    if first.reason:
        yield f"Reason: {first.reason}"


def _differences(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:_MAX_LINES_IN_CHAT]:
        yield f"• {line if len(line) <= _MAX_LINE_LENGTH_IN_CHAT else f'{line[:_MAX_LINE_LENGTH_IN_CHAT]}…'}"
    if len(lines) > _MAX_LINES_IN_CHAT:
        yield f"• and {len(lines) - _MAX_LINES_IN_CHAT} more differences"


def _name(described: DescribedChange) -> str:
    return f"{described.kind} {described.change.key}"


def _slack(lines: Sequence[str]) -> str:
    """Escape the three characters that Slack always interprets. `mrkdwn` switches off all others."""
    text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _as_json({"text": text, "mrkdwn": False})


def _teams(lines: Sequence[str]) -> str:
    """Return an adaptive card for workflows of Teams. A `TextRun` shows Markdown as it is."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [_block(line) for line in _fitting(lines)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return _as_json({"type": "message", "attachments": [attachment]})


def _block(line: str) -> Mapping[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]}


def _fitting(lines: Sequence[str]) -> Sequence[str]:
    """Leave out lines until the rest fits, but keep the last two: the number of other changes, and the reason."""
    first, last = [*lines[:-2]], lines[-2:]
    room = _MAX_BYTES_IN_TEAMS - sum(map(_bytes_in_teams, last))
    ends = list(accumulate(map(_bytes_in_teams, first)))
    kept = bisect_right(ends, room)
    left_out = [f"and {len(first) - kept} more lines"] if kept < len(first) else []
    return [*first[:kept], *left_out, *last]


def _bytes_in_teams(line: str) -> int:
    return len(_as_json(_block(line)).encode())


_CHATS: Mapping[str, Callable[[Sequence[str]], str]] = {WebhookFormat.SLACK: _slack, WebhookFormat.TEAMS: _teams}


def _as_json(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
