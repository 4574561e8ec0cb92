"""The /v1/keys operations: their JSON, their description, and one call of the domain each.

A key of scope `manage` reads and writes only the keys of its own environment, and without `common`, it changes none
that has it.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from config.access import api_keys
from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.serializers import (
    ChoiceField,
    KeyField,
    NoBodySerializer,
    StrictSerializer,
    SwitchField,
    TextField,
    TimestampField,
)
from config.api.views import ApiViewSet
from config.errors import DomainError, ErrorCode
from config.models import ApiKey, Scope
from config.slugs import NAME_LENGTH

_ID = OpenApiParameter("key_id", {"type": "string", "format": "uuid"}, OpenApiParameter.PATH, description="Its `id`.")
_EXAMPLE = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "name": "web shop",
    "environment": "production",
    "scope": "client",
    "common": False,
    "prefix": "hyd_c_6rWx2P",
    "createdAt": "2026-01-31T12:00:00.000000Z",
}
_COMMON = "Whether it may also change what all environments share: environments, segments, metrics, and variants, "
_COMMON += "schemas and prerequisites of flags that exist. Only for scope `manage`, and false unless sent."


class ApiKeySerializer(StrictSerializer):
    """An API key of one environment, without its secret."""

    id = serializers.UUIDField(read_only=True)
    name = TextField(max_length=NAME_LENGTH, help_text="What the key is for.")
    environment = KeyField(source="environment.key", read_only=True)
    scope = ChoiceField(choices=Scope.values, help_text="What it may do; each scope includes those before it.")
    common = SwitchField(source="may_change_common", required=False, help_text=_COMMON)
    prefix = serializers.CharField(read_only=True, help_text="The first characters of its secret.")
    createdAt = TimestampField(source="created_at", read_only=True)
    expiresAt = TimestampField(
        source="expires_at",
        required=False,
        allow_null=True,
        help_text="The time from which it is refused. Null: never.",
    )
    revokedAt = TimestampField(source="revoked_at", read_only=True)

    left_out_while_empty: tuple[str, ...] = ("expiresAt", "revokedAt")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        shown["common"] = instance.scope == Scope.MANAGE and instance.may_change_common
        return {name: value for name, value in shown.items() if value is not None}


class NewApiKeySerializer(ApiKeySerializer):
    """A new key with its secret, which is not stored and is shown only this once."""

    secret = serializers.CharField(
        read_only=True, help_text="Left out if the answer to an `Idempotency-Key` is sent again."
    )

    left_out_while_empty = (*ApiKeySerializer.left_out_while_empty, "secret")


class ApiKeyUpdateSerializer(ApiKeySerializer):
    """The properties of a key that can be changed. You may send the others back as you read them."""

    scope = ChoiceField(choices=Scope.values, read_only=True)
    common = SwitchField(source="may_change_common", read_only=True)


class ApiKeyPagination(KeysetPagination):
    ordering = ("-created_at", "-id")


@extend_schema(tags=["Keys"])
class KeyViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "config.view_apikey"),
        "retrieve": Access(Scope.SERVER, "config.view_apikey"),
        "create": Access(Scope.MANAGE, "config.add_apikey"),
        "partial_update": Access(Scope.MANAGE, "config.change_apikey"),
        "revoke": Access(Scope.MANAGE, "config.change_apikey"),
    }
    serializer_class = ApiKeySerializer
    pagination_class = ApiKeyPagination
    filter_backends = (StrictFilterBackend,)

    def get_queryset(self) -> QuerySet[ApiKey]:
        return ApiKey.objects.filter(environment=self.environment).select_related("environment")

    @operation(
        "list_keys",
        "List API keys",
        description="The keys of the environment, newest first, expired and revoked ones too, without their secrets.",
        responses={200: answer(ApiKeySerializer(many=True), "The keys.", _EXAMPLE)},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_key",
        "Get an API key",
        description="The key, without its secret.",
        parameters=[_ID],
        responses={200: answer(ApiKeySerializer, "The key.", _EXAMPLE)},
    )
    def retrieve(self, request: Request, key_id: str) -> Response:
        self.refuse_input(request)
        return Response(ApiKeySerializer(self._find(key_id)).data)

    @operation(
        "create_key",
        "Create an API key",
        description="Creates a key for the environment of the request. Only this answer has its "
        "`secret`. A key with `common` can only be created by a key that has it, too, or by a signed-in user who may "
        "change environments, flags, segments and metrics.",
        responses={
            201: answer(NewApiKeySerializer, "The key and its secret.", {**_EXAMPLE, "secret": "hyd_c_6rWx2P..."})
        },
        examples=[OpenApiExample("For an app", value={"name": "web shop", "scope": "client"}, request_only=True)],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        scope, common = Scope(values["scope"]), values.get("may_change_common", False)
        self._require_own(scope)
        key, secret = api_keys.create_key(
            name=values["name"],
            environment=self.environment,
            scope=scope,
            common=common,
            expires_at=values.get("expires_at"),
            **self.provenance,
        )
        location = request.build_absolute_uri(f"/v1/keys/{key.pk}")
        shown = ApiKeySerializer(key).data
        response = Response({**shown, "secret": secret}, status=201, headers={"Location": location})
        response.kept_data = shown  # type: ignore[attr-defined]  # for `idempotent`: a secret is not stored
        return response

    @operation(
        "update_key",
        "Change an API key",
        description="Changes the name or the expiry of the key. The scope cannot be changed; "
        "create another key instead. To change a key with `common`, the caller needs what creating one requires.",
        parameters=[_ID],
        request=ApiKeyUpdateSerializer,
        responses={200: answer(ApiKeySerializer, "The changed key.", _EXAMPLE)},
        examples=[OpenApiExample("Another name", value={"name": "shop app"}, request_only=True)],
    )
    def partial_update(self, request: Request, key_id: str) -> Response:
        refuse_parameters(request)
        key = self._find(key_id)
        serializer = ApiKeyUpdateSerializer(key, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        key = api_keys.update_key(key, changes=serializer.validated_data, **self.provenance)
        return Response(ApiKeySerializer(key).data)

    @operation(
        "revoke_key",
        "Revoke an API key",
        description="Revokes the key permanently: it is refused from the next request on. "
        "Revoking a revoked key changes nothing. To revoke a key with `common`, the caller needs what creating one "
        "requires. Send no body, an empty one or `{}`.",
        parameters=[_ID],
        request=NoBodySerializer,
        responses={
            200: answer(ApiKeySerializer, "The revoked key.", {**_EXAMPLE, "revokedAt": "2026-02-01T12:00:00.000000Z"})
        },
    )
    def revoke(self, request: Request, key_id: str) -> Response:
        self.refuse_input(request)
        key = api_keys.revoke_key(self._find(key_id), **self.provenance)
        return Response(ApiKeySerializer(key).data)

    def _find(self, key_id: str) -> ApiKey:
        try:
            parsed = UUID(key_id)
        except ValueError:
            parsed = UUID(int=0)  # no key has such an id
        return api_keys.get_key(parsed, self.environment)

    @property
    def provenance(self) -> dict[str, Any]:
        arguments = super().provenance
        if self.caller.scope is not None:
            return arguments
        return {**arguments, "actor": api_keys.limited(arguments["actor"], self.request.user)}

    def _require_own(self, scope: Scope) -> None:
        """Refuse a new key of a larger scope than that of the caller's key. Users only need the permission."""
        if self.caller.scope is not None and not self.caller.scope.includes(scope):
            message = f"A key of scope {self.caller.scope.value} cannot make one of scope {scope.value}."
            raise DomainError(ErrorCode.FORBIDDEN, message)
