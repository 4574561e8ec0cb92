"""The /v1/environments operations: their JSON, their description, and one call of the domain each."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.access import environments
from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.serializers import ChoiceField, KeyField, StrictSerializer, SwitchField, TextField, TimestampField
from config.api.views import ApiViewSet
from config.errors import DomainError, ErrorCode
from config.models import Environment, ReasonSetting, Scope
from config.slugs import KEY_RULE, NAME_LENGTH, is_key

_COMMON = "Environments"
_ADDRESS = "/v1/environments"


class EnvironmentSerializer(StrictSerializer):
    """An environment, with its own flag states, experiments, events and keys."""

    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    name = TextField(max_length=NAME_LENGTH, help_text="The name that people read.")
    isDefault = SwitchField(
        source="is_default",
        read_only=True,
        help_text="Whether requests use this environment if they name none and have no key.",
    )
    protected = SwitchField(
        required=False,
        help_text="Whether the admin shows this environment in red, and asks before it switches flags there. The API "
        "does not ask. If you leave it out, it is true for keys that name production, such as `production`, `eu-prod` "
        "and `live`.",
    )
    changeReason = ChoiceField(
        source="change_reason",
        choices=ReasonSetting.values,
        required=False,
        help_text="Whether the admin asks for the reason of a change in this environment: `none`, `optional` (the "
        "default) or `required`. The API takes changes without a reason.",
    )
    createdAt = TimestampField(source="created_at", read_only=True)


class EnvironmentUpdateSerializer(EnvironmentSerializer):
    """The properties of an environment that can be changed. You may send the others back as you
    read them.
    """

    key = KeyField(read_only=True)
    isDefault = SwitchField(
        source="is_default",
        help_text="True makes it the default instead of the current one. False is refused for the default environment.",
    )


class EnvironmentPagination(KeysetPagination):
    ordering = ("key",)


@extend_schema(tags=["Environments"])
class EnvironmentViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "config.view_environment"),
        "retrieve": Access(Scope.SERVER, "config.view_environment"),
        "create": Access(Scope.MANAGE, "config.add_environment", _COMMON),
        "partial_update": Access(Scope.MANAGE, "config.change_environment", _COMMON),
    }
    serializer_class = EnvironmentSerializer
    pagination_class = EnvironmentPagination
    filter_backends = (StrictFilterBackend,)

    def get_queryset(self) -> QuerySet[Environment]:
        return Environment.objects.all()

    @operation(
        "list_environments",
        "List environments",
        description="All environments, ordered by key. Without `limit` the answer holds all of them.",
        responses={200: answer(EnvironmentSerializer(many=True), "The environments.")},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_environment",
        "Get an environment",
        description="The environment with this key.",
        responses={200: answer(EnvironmentSerializer, "The environment.")},
    )
    def retrieve(self, request: Request, environment_key: str) -> Response:
        self.refuse_input(request)
        return _answer(_find(environment_key))

    @operation(
        "create_environment",
        "Create an environment",
        description="Existing flags are off in the new environment and have no rules. The request "
        "requires a key that was made with `common`.",
        responses={201: answer(EnvironmentSerializer, "The environment.")},
        errors=[ErrorCode.ALREADY_EXISTS],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        environment = environments.create_environment(**self.validated(request.data), **self.provenance)
        location = request.build_absolute_uri(f"{_ADDRESS}/{environment.key}")
        return _answer(environment, status=201, headers={"Location": location})

    @operation(
        "update_environment",
        "Change an environment",
        description="Changes the name of the environment, how the admin asks before changes in it, or makes "
        "it the default. Properties that you do not send stay. The request requires a key that was made with `common`.",
        request=EnvironmentUpdateSerializer,
        responses={200: answer(EnvironmentSerializer, "The changed environment.")},
    )
    def partial_update(self, request: Request, environment_key: str) -> Response:
        refuse_parameters(request)
        environment = _find(environment_key)
        serializer = EnvironmentUpdateSerializer(environment, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        changes = serializer.validated_data
        return _answer(environments.update_environment(environment, **changes, **self.provenance))


def _find(key: str) -> Environment:
    environment = Environment.objects.filter(key=key).first() if is_key(key) else None
    if environment is None:
        message = f"No environment has the key {key[:100]!r}; list them with GET {_ADDRESS}."
        raise DomainError(ErrorCode.NOT_FOUND, message)
    return environment


def _answer(environment: Environment, *, status: int = 200, headers: dict[str, Any] | None = None) -> Response:
    return Response(EnvironmentSerializer(environment).data, status=status, headers=headers)
