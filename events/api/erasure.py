"""The operation that erases a user."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.permissions import Access
from config.api.schema import NAME, answer, operation
from config.api.structs import Answer, schema_of
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from events.removal import erase_user


class ChangedExperiment(Answer):
    """An experiment whose numbers changed."""

    id: UUID
    key: str
    status: str


class Erasure(Answer):
    """What was deleted with a user, and the experiments whose numbers changed."""

    user_id: str
    events: int
    exposures: int
    experiments: list[ChangedExperiment]


@extend_schema(tags=["Users"])
class UserViewSet(ApiViewSet):
    access = {"destroy": Access(Scope.MANAGE, "events.delete_event")}
    lookup_url_kwarg = "user_id"
    keeps_history = False

    @operation(
        "erase_user",
        "Erase a user",
        description="Deletes all events and exposures of the user in this environment, in one "
        "transaction, and the user's place among the recent users. It names the experiments whose numbers "
        "changed. If nothing is stored about the user, the counts are 0. Rules and segments that list the user "
        "stay as they are.",
        parameters=[
            OpenApiParameter(
                "user_id",
                NAME,
                OpenApiParameter.PATH,
                description="The id of the user, percent-encoded. It may contain slashes.",
            )
        ],
        responses={200: answer(schema_of(Erasure), "What was deleted.")},
    )
    def destroy(self, request: Request, user_id: str) -> Response:
        self.refuse_input(request)
        _refuse_broken(request)
        erased = erase_user(user_id, self.environment)
        return Response(Erasure.of(erased, user_id=user_id).as_json())


def _refuse_broken(request: Request) -> None:
    """The path would name another user."""
    if getattr(request, "has_broken_path", False):
        detail = Detail("userId", DetailCode.INVALID_VALUE, "Must be UTF-8, percent-encoded.")
        raise ValidationFailed([detail], code=ErrorCode.INVALID_PARAMETER)
