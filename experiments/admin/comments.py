"""Comments on an experiment, on its results page. Users who may change the experiment may write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from config.admin.current_environment import check_environment
from config.admin.kept_input import page_of_form, sent_input
from config.admin.site import DomainAdmin
from config.errors import DomainError
from experiments.admin.results.pages import ResultPages
from experiments.lifecycle.comments import add_comment, delete_comment
from experiments.models import COMMENT_LENGTH, Comment, Experiment

_A_PAGE = 20


@dataclass(frozen=True, slots=True)
class Comments:
    """A page of comments, the newest first. `typed` and `refusal` belong to a comment that was not stored."""

    shown: Sequence[Comment]
    number: int
    has_more: bool
    typed: str = ""
    refusal: str = ""
    longest: int = COMMENT_LENGTH


class CommentPages(ResultPages, DomainAdmin):
    """The addresses that add and delete comments. Both lead back to the results."""

    def get_urls(self) -> list[Any]:
        delete = "<path:object_id>/comments/<uuid:comment_id>/delete/"
        return [
            self.route("<path:object_id>/comments/", self.comment_view, "comment", form_on="results"),
            self.route(delete, self.comment_delete_view, "comment_delete", form_on="results"),
            *super().get_urls(),
        ]

    def results_context(self, request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
        typed, refusal = getattr(request, "refused_comment", (sent_input(request).get("text", ""), ""))
        return {"comments": read_comments(request, experiment, typed, refusal)}

    def comment_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Store a comment. A refused one stays in the form, with the reason."""
        experiment = self._commentable(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        if request.method != "POST":  # such as after signing in again
            return HttpResponseRedirect(page_of_form(request))
        text = request.POST.get("text", "")
        try:
            check_environment(request, request.POST.get("opened_in"))
            add_comment(experiment, user=request.user, text=text, now=timezone.now())
        except DomainError as refusal:
            message = " ".join(detail.message for detail in refusal.details) or refusal.message
            request.refused_comment = (text, message)  # type: ignore[attr-defined]  # ours
            return self.results_view(request, object_id)
        messages.success(request, "Your comment is saved.")
        return self._back(experiment)

    def comment_delete_view(self, request: HttpRequest, object_id: str, comment_id: UUID) -> HttpResponse:
        """Delete a comment of the signed-in user."""
        experiment = self._commentable(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        if request.method != "POST":  # such as after signing in again
            return HttpResponseRedirect(page_of_form(request))
        if delete_comment(experiment, comment_id, user=request.user):
            messages.success(request, "Your comment is deleted.")
        else:
            messages.error(request, "There is no such comment of yours, so nothing is deleted.")
        return self._back(experiment)

    def _commentable(self, request: HttpRequest, object_id: str) -> Experiment | None:
        experiment: Experiment | None = self.find(request, object_id)
        if not self.has_change_permission(request, experiment):
            raise PermissionDenied
        return experiment

    def _back(self, experiment: Experiment) -> HttpResponse:
        return HttpResponseRedirect(f"{self.address_of('results', experiment.pk)}#comments")


def read_comments(request: HttpRequest, experiment: Experiment, typed: str = "", refusal: str = "") -> Comments:
    """Return a page of comments, with one query."""
    asked = request.GET.get("comments", "1")
    number = int(asked) if asked.isascii() and asked.isdigit() and 0 < len(asked) < 6 and int(asked) else 1
    start = (number - 1) * _A_PAGE
    rows = list(Comment.objects.filter(experiment=experiment).order_by("-at", "-id")[start : start + _A_PAGE + 1])
    return Comments(rows[:_A_PAGE], number, len(rows) > _A_PAGE, typed, refusal)
