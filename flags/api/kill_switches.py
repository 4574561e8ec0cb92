"""The operation that alert managers call, which switches the flags of a kill switch off."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from config.answers import KEY
from config.api.authentication import Authenticated, Caller, secret_in
from config.api.failures import request_id
from config.api.filters import refuse_parameters
from config.api.idempotency import idempotent
from config.api.permissions import Access
from config.api.schema import answer, closed_object, component, operation
from config.api.structs import Answer, Key, described, schema_of
from config.api.views import ApiViewSet
from config.models import Scope
from config.slugs import REASON_LENGTH
from flags.api import alerts
from flags.changes.kill_switches import MAX_FLAGS, Pulled, actor_of, find_live, pull
from flags.models import KillSwitch

_ID = OpenApiParameter(
    "hook_id", {"type": "string", "format": "uuid"}, OpenApiParameter.PATH, description="The id of the kill switch."
)
_PLAIN = closed_object(
    {
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": REASON_LENGTH,
            "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$",
            "description": "Why; the history of the flags shows it.",
        },
        "flags": {
            "type": "array",
            "items": KEY,
            "minItems": 1,
            "maxItems": MAX_FLAGS,
            "description": "Some flags of the kill switch. Without it, all of them are switched off.",
        },
    },
    "A reason, from any program.",
    optional=["flags"],
)
_ALERT = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": [alerts.FIRING, alerts.RESOLVED]},
        # Labels and annotations are not validated: a strange label must not keep a flag on.
        "labels": {"description": "An object. The reason names its `alertname` and `severity`."},
        "annotations": {"description": "An object. The reason has its `summary`, `description` or `message`."},
    },
    "required": ["status"],
    "additionalProperties": True,
}
_ALERTS = {
    "type": "object",
    "description": "What Prometheus Alertmanager and Grafana send. Other properties are ignored.",
    "properties": {"alerts": {"type": "array", "items": _ALERT}},
    "required": ["alerts"],
    "additionalProperties": True,
}
_BODY = {
    "oneOf": [component("KillSwitchReason", _PLAIN), component("KillSwitchAlerts", _ALERTS)],
}
_EXAMPLE = {"switchedOff": ["new-checkout"], "alreadyOff": [], "missing": []}
_FIRING = {
    "status": "firing",
    "labels": {"alertname": "HighErrorRate", "severity": "critical"},
    "annotations": {"summary": "More than 5 % of requests fail"},
}


class KillSwitchResult(Answer):
    """What became of the flags. All lists are empty if no alert fires."""

    switched_off: Annotated[list[Key], described("The flags that were on, and are off now.")]
    already_off: Annotated[list[Key], described("The flags that were off.")]
    missing: Annotated[list[Key], described("The flags that do not exist any more.")]


class KillSwitchAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>` with the token of the kill switch in the path."""

    def authenticate(self, request: Request) -> Authenticated:
        token = secret_in({**request.META, "HTTP_X_API_KEY": None})
        if token is None:
            raise AuthenticationFailed("Send the token of the kill switch as `Authorization: Bearer <token>`.")
        hook_id = request.parser_context["kwargs"]["hook_id"]
        switch = find_live(hook_id, token)
        if switch is None:
            raise AuthenticationFailed("No kill switch has this id and token; it may be revoked.")
        # The scope lets the caller pass the checks of this view only. No other credential opens it.
        return AnonymousUser(), Caller(switch.environment, actor_of(switch), Scope.CLIENT, str(switch.pk))

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


@extend_schema(tags=["Kill switches"])
class KillSwitchViewSet(ApiViewSet):
    access = {"switch_off": Access(Scope.CLIENT, "flags.change_flag")}
    authentication_classes = (KillSwitchAuthentication,)
    own_credentials = "killSwitchToken"
    keeps_history = False  # its reason is in the body

    @operation(
        "switch_off",
        "Switch flags off by an alert",
        description="Switches the flags that a kill switch names off, in its environment, with the alert as the "
        "reason. It can do nothing else, and needs the token of the kill switch, which is made in the admin. It "
        "reads what Prometheus Alertmanager and Grafana send, and switches nothing if all alerts are resolved. "
        "Flags that are off stay off, so sending a request again changes nothing. It never switches flags on.",
        parameters=[_ID],
        request={"application/json": _BODY},
        responses={200: answer(schema_of(KillSwitchResult), "What became of the flags.", _EXAMPLE)},
        examples=[
            OpenApiExample("An alert", value={"alerts": [_FIRING]}, request_only=True),
            OpenApiExample("A reason", value={"reason": "More than 5 % of requests fail"}, request_only=True),
        ],
    )
    @idempotent
    def switch_off(self, request: Request, hook_id: str) -> Response:
        refuse_parameters(request)
        alarm = alerts.read(request.data)
        switch = KillSwitch.objects.select_related("environment").get(pk=self.caller.key_id)
        if alarm is None:
            return _result(Pulled((), (), ()))
        actor = replace(self.caller.actor, request=request_id(request))
        flags = switch.flags if alarm.flags is None else alarm.flags
        return _result(pull(switch, flags, actor=actor, now=self.now, reason=alarm.reason))


def _result(pulled: Pulled) -> Response:
    return Response(KillSwitchResult.of(pulled).as_json())
