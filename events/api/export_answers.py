"""Exports as answers, which are chosen by `Accept` and sent while they are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse

from config.api.renderers import preferred
from config.errors import DomainError, ErrorCode
from events.models import EventQuerySet
from events.queries.exports import FORMS, Form, pages, write

_BY_MEDIA_TYPE = {form.media_type: form for form in FORMS.values()}

# An export occupies a thread as long as its client reads; the other threads serve other requests.
_places = threading.BoundedSemaphore(max(1, settings.THREADS // 2))


def wanted_form(request: HttpRequest) -> Form | None:
    """Return the form of file that a request prefers to JSON, or None."""
    media_type = preferred(request, _BY_MEDIA_TYPE)
    return None if media_type is None else _BY_MEDIA_TYPE[media_type]


class ExportAnswer(StreamingHttpResponse):
    """A file that is sent while it is written, or only its headers. Raises DomainError `rate_limited`."""

    def __init__(self, events: EventQuerySet, form: Form, *, is_whole: bool) -> None:
        charset = "; charset=utf-8" if form.media_type.startswith("text/") else ""
        super().__init__(_Pieces(events, form) if is_whole else (), content_type=form.media_type + charset)


class _Pieces(Iterator[bytes]):
    """The pieces of a file. It takes one of the process's places for exports until it is closed.

    The first records are read before the first byte is sent, so that an error of the database still
    gets its usual answer.
    """

    def __init__(self, events: EventQuerySet, form: Form) -> None:
        if not _places.acquire(blocking=False):
            message = "The maximum number of exports is in progress; try again when one has ended."
            raise DomainError(ErrorCode.RATE_LIMITED, message)
        self._is_open = True
        chunks = pages(events)
        try:
            first = next(chunks, ())
        except BaseException:
            self.close()
            raise
        self._pieces = write(chain((first,), chunks), form)

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            _places.release()
