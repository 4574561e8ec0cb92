"""Questions that a page asks before a write that others would feel, such as the users of an experiment.

A view calls `require_agreement` before it writes. If the input does not say that somebody agreed, the page of the
question takes the place of the view's answer. Its form sends the same input again, with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.http import HttpRequest, HttpResponse

from config.admin.site import Confirmation, DomainAdmin, reason_of
from config.errors import DomainError, ErrorCode

AGREED = "agreed"
_DECLINED = "declined"
_OF_THIS_PAGE = ("csrfmiddlewaretoken", "opened_in", "reason", AGREED)


class Unanswered(Exception):
    """Somebody must answer a question first. `page` asks it."""

    def __init__(self, page: HttpResponse) -> None:
        super().__init__()
        self.page = page


class QuestionMiddleware:
    """Shows the page of a question that a view has asked."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return exception.page if isinstance(exception, Unanswered) else None


def require_agreement(
    model_admin: DomainAdmin, request: HttpRequest, subjects: Sequence[str], confirmation: Confirmation
) -> None:
    """Raise Unanswered unless the input says that somebody agreed to all of these subjects.

    Call it before anything is written, or in the transaction of the write. Raises DomainError if somebody declined.
    """
    if _DECLINED in request.POST:
        raise DomainError(ErrorCode.IN_USE, "You cancelled, so nothing was changed.")
    if set(subjects) <= set(request.POST.getlist(AGREED)):
        return
    sent = [(name, value) for name, values in request.POST.lists() for value in values if name not in _OF_THIS_PAGE]
    context = {
        "title": confirmation.title,
        "confirmation": confirmation,
        "subjects": subjects,
        "sent": sent,
        "reason": reason_of(request),
    }
    raise Unanswered(model_admin.page(request, "admin/question.html", context))
