"""Questions before a write with consequences for others, such as in a protected environment.

A view calls `require_agreement` before it writes. Unless the input has an agreement, the page of the question replaces
the answer of the view. Its form sends the same input again, with the agreement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from config.admin.kept_input import ANSWERS, sent_input
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.admin.site import Confirmation, DomainAdmin
from config.errors import DomainError, ErrorCode
from config.models import ReasonSetting

AGREED, TYPED, _DECLINED = ANSWERS
_OF_THIS_PAGE = ("csrfmiddlewaretoken", "opened_in", "reason", AGREED, TYPED)


class Unanswered(Exception):
    """A question must be answered first. `page` asks it."""

    def __init__(self, page: HttpResponse) -> None:
        super().__init__()
        self.page = page


class Declined(DomainError):
    """The answer was no. The input has no errors."""

    is_declined = True

    def __init__(self) -> None:
        super().__init__(ErrorCode.IN_USE, "You cancelled, so nothing was changed.")


class QuestionMiddleware(MiddlewareMixin):
    """Shows the page of a question that a view has asked."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return exception.page if isinstance(exception, Unanswered) else None


def unless_refused(confirmation: Confirmation, check: Callable[[], object], title: str) -> Confirmation:
    """Return the confirmation, or if `check` raises DomainError, one with this title and the reason of the refusal."""
    try:
        check()
    except DomainError as refusal:
        return replace(confirmation, title=title, consequences=(refusal.message,), button="")
    return confirmation


def require_agreement(model_admin: DomainAdmin, request: HttpRequest, confirmation: Confirmation) -> None:
    """Raise Unanswered unless the input agrees to all subjects of this question, or Declined if it declines.

    The input must also have the reason and the name that the question asks for. Call it before anything is written, or
    in the transaction of the write.
    """
    if not has_agreed(model_admin, request, confirmation):
        ask(model_admin, request, confirmation)


def ask(model_admin: DomainAdmin, request: HttpRequest, confirmation: Confirmation) -> NoReturn:
    """Raise Unanswered with the page of this question. Its form sends the input again, also kept input."""
    is_sent = AGREED in request.POST
    setting = reason_setting(model_admin, request, confirmation.environment)
    submitted = sent_input(request).lists()
    # The reason stays as it was typed where the page has no field for it.
    own = _OF_THIS_PAGE if setting is not ReasonSetting.NONE else [name for name in _OF_THIS_PAGE if name != "reason"]
    sent = [(name, value) for name, values in submitted for value in values if name not in own]
    context = {
        "title": confirmation.title,
        "confirmation": confirmation,
        "is_question": True,
        "sent": sent,
        "reason": reason_of(request),
        "reason_setting": setting,
        "lacks_reason": is_sent and lacks_reason(request, setting),
        "lacks_name": is_sent and not _is_typed(request, confirmation),
    }
    raise Unanswered(model_admin.page(request, "admin/question.html", context))


def has_agreed(model_admin: DomainAdmin, request: HttpRequest, confirmation: Confirmation) -> bool:
    """Return whether the input agrees to a question. Raises Declined if it declines.

    The confirmation need not have its consequences yet.
    """
    if _DECLINED in request.POST:
        raise Declined
    return (
        set(confirmation.subjects) <= set(request.POST.getlist(AGREED))
        and _is_typed(request, confirmation)
        and not lacks_reason(request, reason_setting(model_admin, request, confirmation.environment))
    )


def _is_typed(request: HttpRequest, confirmation: Confirmation) -> bool:
    """Return whether the input has the name that the question asks for, in upper or lower case."""
    wanted = confirmation.name_to_type.strip().casefold()
    return not wanted or request.POST.get(TYPED, "").strip().casefold() == wanted
