"""The two operations of OFREP: evaluate one flag for a user, or all flags.

They do not read the database, except for users of flags that an experiment drives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from django.conf import settings
from drf_spectacular.utils import extend_schema
from msgspec import UNSET
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from config import snapshot as configuration_snapshot
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.errors import DomainError, ErrorCode
from config.models import Scope
from flags import snapshot
from flags.engine.evaluation import TargetingKeyMissing
from flags.engine.types import Attributes, Configuration, Context, Flag
from flags.experiment_rule import exposures
from flags.ofrep import client_state, failures, openapi
from flags.ofrep.answers import (
    Facts,
    OfrepEvaluation,
    OfrepEvaluations,
    OfrepEvaluationsMetadata,
    answer_flag,
    answer_flags,
    answer_missing_key,
)
from flags.ofrep.client_state import Offer, etag, matches
from flags.ofrep.users import read_filter, read_user
from flags.usage import counting


class BareRenderer(BaseRenderer):
    """JSON without an envelope, or an empty body."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else msgspec.json.encode(data)


@extend_schema(tags=["OpenFeature"])
class OfrepViewSet(ApiViewSet):
    access = {
        "evaluate": Access(Scope.CLIENT, "flags.view_flag"),
        "evaluate_all": Access(Scope.CLIENT, "flags.view_flag"),
    }
    lookup_url_kwarg = "flag_key"
    renderer_classes = [BareRenderer]

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return failures.answer_exception

    @openapi.evaluate
    def evaluate(self, request: Request, flag_key: str) -> Response:
        context = self._context(request)
        configuration = context.configuration
        flag = configuration.flags.get(flag_key)
        if flag is None:
            raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {flag_key[:100]!r}.")
        facts = Facts(self.environment.key, configuration.revision)
        if configuration.experiments:
            exposures.load_assignments(self.environment, context, [flag_key])
        try:
            return Response(self._evaluate_and_expose(flag, context, facts))
        except TargetingKeyMissing:
            return Response(answer_missing_key(flag_key), status=400)
        finally:
            counting.count(self.environment, context)

    @openapi.evaluate_all
    def evaluate_all(self, request: Request) -> Response:
        if request.META.get("QUERY_STRING"):
            tags = request.query_params.getlist("flagConfigEtag")
            configuration_snapshot.catch_up_to(client_state.newest_revision(tags))
        context = self._context(request)
        if context.configuration.experiments:
            exposures.load_assignments(self.environment, context)
        offer = self._offer()
        headers = {"ETag": self._etag(context, offer)}
        if matches(request.META.get("HTTP_IF_NONE_MATCH"), headers["ETag"]):
            return Response(status=304, headers=headers)
        return Response(self._answers(context, offer), headers=headers)

    def _evaluate_and_expose(self, flag: Flag, context: Context, facts: Facts) -> OfrepEvaluation:
        """Return what the flag is for the user, after recording the user's exposure to an experiment."""
        answer = answer_flag(flag, context, facts, shows_rules=self._shows_rules)
        participation = context.evaluations[flag.key].participation
        if participation and not exposures.record_exposure(self.environment, context, participation):
            return answer_flag(flag, context, facts, shows_rules=self._shows_rules)
        return answer

    def _context(self, request: Request) -> Context:
        if request.stream is None:
            raise DomainError(ErrorCode.MALFORMED_JSON, "The body is empty; send one JSON document in UTF-8.")
        user_id, attributes = read_user(request.data)
        return Context(user_id, attributes, snapshot.configuration(self.environment.key), self.now)

    @property
    def _shows_rules(self) -> bool:
        """Keys of scope `client` ship inside apps, whose users must not read the rules."""
        return self.caller.scope is not Scope.CLIENT

    def _offer(self) -> Offer | None:
        origin = client_state.origin(self.request._request)
        return None if origin is None else Offer(origin, self.environment.key, self.caller.key_id)

    def _etag(self, context: Context, offer: Offer | None) -> str:
        return etag(
            settings.SECRET_KEY,
            self.environment.key,
            context.configuration.revision,
            self._shows_rules,
            context.user_id,
            context.attributes,
            context.configuration.schedule.next_change_for(context),
            offer and offer.identity(self.now),
            *([dict(context.assigned)] if context.assigned else ()),
        )

    def _answers(self, context: Context, offer: Offer | None) -> OfrepEvaluations:
        configuration, environment = context.configuration, self.environment.key
        flags = _flags_to_evaluate(configuration, context.attributes)
        # Without the revision: clients compare entries to find the flags that changed, and it would change them all.
        answers = answer_flags(flags, context, Facts(environment), shows_rules=self._shows_rules)
        counting.count(self.environment, context)
        return OfrepEvaluations(
            flags=answers,
            metadata=OfrepEvaluationsMetadata(flag_set_id=environment, revision=configuration.revision),
            event_streams=UNSET if offer is None else offer.streams(self.now),
        )


def _flags_to_evaluate(configuration: Configuration, attributes: Attributes) -> Iterable[Flag]:
    """Return the flags that are not archived, or those of them that the context names."""
    keys = read_filter(attributes)
    flags = configuration.flags
    candidates = flags.values() if keys is None else (flags[key] for key in keys if key in flags)
    return (flag for flag in candidates if "archivedAt" not in flag.source)
