"""What uses a flag outside of this app, for the page of the flag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal
from django.http import HttpRequest

from flags.models import Flag

asking_for_uses = Signal()
"""Sent with the `request` and the `key` of a flag, because only `experiments` knows experiments.

A receiver returns a `FlagUse` for each of its objects in the current environment that uses the flag, newest first.
"""


@dataclass(frozen=True, slots=True)
class FlagUse:
    """An experiment that uses a flag: its key, the address of its page, and its state in words."""

    key: str
    address: str
    words: str


def uses_of_flag(request: HttpRequest, key: str) -> Sequence[FlagUse]:
    """Return all uses that the user may view."""
    answers: Iterable[tuple[object, Any]] = asking_for_uses.send(sender=Flag, request=request, key=key)
    return [use for _, answer in answers for use in answer]
