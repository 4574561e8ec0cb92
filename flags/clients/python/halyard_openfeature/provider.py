"""The provider: the methods that OpenFeature calls, and its life cycle."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

from openfeature.evaluation_context import EvaluationContext
from openfeature.event import ProviderEventDetails
from openfeature.exception import GeneralError, InvalidContextError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagType, FlagValueType
from openfeature.hook import Hook
from openfeature.provider import AbstractProvider, Metadata
from openfeature.track import TrackingEventDetails

from .api import Api, logger, pause_after
from .context import plain_attributes, read_context
from .events import EventQueue
from .exposures import EVENT, ExposureHook, last_user
from .follower import FetchError, Follower
from .local import LocalEvaluator
from .remote import RemoteEvaluator
from .ruleset import Ruleset, RulesetError, compile_ruleset, read_state

_NAME = "Halyard"
_Object = Sequence[FlagValueType] | Mapping[str, FlagValueType]


class HalyardProvider(AbstractProvider):
    """Evaluates flags of Halyard for OpenFeature.

    In `remote` mode, the service evaluates each flag and records exposures. In `local` mode, this process evaluates a
    ruleset that it keeps current, and reports exposures. Local mode needs a key of scope `server`.

    `state_file`: where local mode keeps the last ruleset, for starts without the service.
    `bootstrap`: a ruleset (`data` of `GET /v1/ruleset`) for starts without both.
    `environment`: the key of the environment that `state_file` and `bootstrap` must be of.
    `exposures`: whether to report them; by default, only local mode does.
    `timeout` and the intervals: in seconds.
    `http_options`: options of httpx clients.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        mode: Literal["remote", "local"] = "remote",
        environment: str | None = None,
        state_file: str | os.PathLike[str] | None = None,
        bootstrap: Mapping[str, Any] | None = None,
        exposures: bool | None = None,
        exposure_event: str = EVENT,
        timeout: float = 5.0,
        poll_interval: float = 30.0,
        event_interval: float = 2.0,
        event_capacity: int = 10_000,
        http_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if mode not in ("remote", "local"):
            raise ValueError('mode must be "remote" or "local".')
        if (state_file is not None or bootstrap is not None) and (mode != "local" or environment is None):
            raise ValueError("state_file and bootstrap need local mode, and the environment that they must be of.")
        self._environment, self._bootstrap = environment, bootstrap
        self._state_file = None if state_file is None else Path(state_file)
        self._api = Api(url, key, timeout, http_options or {})
        self._events = EventQueue(self._api, capacity=event_capacity, delay=event_interval)
        self._local = LocalEvaluator() if mode == "local" else None
        self._remote = RemoteEvaluator(self._api)
        self._is_initialized = False
        self._follower = None if self._local is None else self._follow(self._local, poll_interval)
        reports = mode == "local" if exposures is None else exposures
        self._hooks: list[Hook] = [ExposureHook(self._events, exposure_event, self._knows)] if reports else []
        _providers.add(self)

    # --- life --------------------------------------------------------------------------------------------------------

    def get_metadata(self) -> Metadata:
        return Metadata(name=_NAME)

    def get_provider_hooks(self) -> list[Hook]:
        return self._hooks

    def initialize(self, evaluation_context: EvaluationContext) -> None:
        """Fetch the ruleset in local mode. If the service does not answer, begin with the last known ruleset.

        Raises OpenFeatureError if there is none, and keeps trying. A provider may begin again after `shutdown`.
        """
        if self._api.client.is_closed:
            self._api.reset()
            self._events.reset()
        if self._local is None or self._follower is None or self._is_initialized:
            return
        self._is_initialized = True
        try:
            self._follower.fetch()
        except FetchError as error:
            self._begin_without_service(self._local, error)
            self._follower.start(is_current=False, pause=pause_after(1))
            if self._local.ruleset is None:
                raise GeneralError(f"There is no ruleset yet: {error}.") from error
        else:
            self._follower.start(is_current=True)

    def shutdown(self) -> None:
        """Send the queued events, and end."""
        if self._api.client.is_closed:
            return  # the process ends after an explicit shutdown
        self._is_initialized = False
        if self._follower is not None:
            self._follower.stop()
        self._events.close()
        self._api.close()

    def flush(self, timeout: float = 10.0) -> bool:
        """Send the queued events, and return whether all arrived. It blocks."""
        return self._events.flush(timeout)

    async def flush_async(self, timeout: float = 10.0) -> bool:
        """Send the queued events without blocking the event loop, and return whether all arrived."""
        return await asyncio.to_thread(self._events.flush, timeout)

    async def shutdown_async(self) -> None:
        """Send the queued events without blocking the event loop, and end."""
        await self._api.aclose()
        await asyncio.to_thread(self.shutdown)

    def _begin_without_service(self, local: LocalEvaluator, reason: FetchError) -> None:
        for name, ruleset in (("last known state", self._from_file), ("bootstrap", self._from_bootstrap)):
            try:
                local.ruleset = ruleset()
            except RulesetError as error:
                logger.warning("The %s is refused: %s", name, error)
            if local.ruleset is not None:
                logger.warning("Flags are those of the %s: %s.", name, reason)
                return

    def _from_file(self) -> Ruleset | None:
        if self._state_file is None or self._environment is None:
            return None
        return read_state(self._state_file, self._environment)

    def _from_bootstrap(self) -> Ruleset | None:
        return None if self._bootstrap is None else compile_ruleset(self._bootstrap, expected=self._environment)

    def _follow(self, local: LocalEvaluator, poll_interval: float) -> Follower:
        return Follower(
            self._api,
            local,
            environment=self._environment,
            state_file=self._state_file,
            poll_interval=poll_interval,
            on_change=self._announce_change,
            on_stale=lambda message: self.emit_provider_stale(ProviderEventDetails(message=message)),
            on_recovery=lambda: self.emit_provider_ready(ProviderEventDetails()),
        )

    def _announce_change(self, ruleset: Ruleset, changed: list[str]) -> None:
        self.emit_provider_configuration_changed(
            ProviderEventDetails(flags_changed=changed, metadata={"revision": ruleset.revision})
        )

    def _knows(self, experiment: str) -> bool:
        ruleset = self._local.ruleset if self._local is not None else None
        return ruleset is None or experiment in ruleset.experiments

    def _begin_in_child(self) -> None:
        """Begin anew in a forked process, which has no threads and connections of its own."""
        if self._api.client.is_closed:
            return
        self._api.reset()
        self._events.reset()
        if self._follower is not None and self._is_initialized:
            self._follower.start(is_current=False)  # the parent may not have been ready

    # --- evaluations -------------------------------------------------------------------------------------------------

    def _read_user(self, context: EvaluationContext | None) -> tuple[str, Mapping[str, Any]]:
        user = read_context(context)
        last_user.set(user)
        return user

    def _resolve(
        self, flag_key: str, flag_type: FlagType, context: EvaluationContext | None
    ) -> FlagResolutionDetails[Any]:
        user_id, attributes = self._read_user(context)
        return (self._local or self._remote).resolve(flag_key, flag_type, user_id, attributes)

    async def _resolve_async(
        self, flag_key: str, flag_type: FlagType, context: EvaluationContext | None
    ) -> FlagResolutionDetails[Any]:
        user_id, attributes = self._read_user(context)
        if self._local is not None:
            return self._local.resolve(flag_key, flag_type, user_id, attributes)
        return await self._remote.resolve_async(flag_key, flag_type, user_id, attributes)

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        return self._resolve(flag_key, FlagType.BOOLEAN, evaluation_context)

    async def resolve_boolean_details_async(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        return await self._resolve_async(flag_key, FlagType.BOOLEAN, evaluation_context)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        return self._resolve(flag_key, FlagType.STRING, evaluation_context)

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        return await self._resolve_async(flag_key, FlagType.STRING, evaluation_context)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        return self._resolve(flag_key, FlagType.INTEGER, evaluation_context)

    async def resolve_integer_details_async(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        return await self._resolve_async(flag_key, FlagType.INTEGER, evaluation_context)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        return self._resolve(flag_key, FlagType.FLOAT, evaluation_context)

    async def resolve_float_details_async(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        return await self._resolve_async(flag_key, FlagType.FLOAT, evaluation_context)

    def resolve_object_details(
        self, flag_key: str, default_value: _Object, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[_Object]:
        return self._resolve(flag_key, FlagType.OBJECT, evaluation_context)

    async def resolve_object_details_async(
        self, flag_key: str, default_value: _Object, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[_Object]:
        return await self._resolve_async(flag_key, FlagType.OBJECT, evaluation_context)

    # --- tracking ----------------------------------------------------------------------------------------------------

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Queue an event of the user. It returns at once, and never raises.

        The event's properties are the attributes of the details, and its property `value` is their `value`. Amounts of
        money need the attributes `revenue` and `currency`.
        """
        details = tracking_event_details or TrackingEventDetails()
        value = {} if details.value is None else {"value": details.value}
        try:
            user_id, _ = read_context(evaluation_context)
            properties = plain_attributes({**details.attributes, **value})
        except InvalidContextError as error:
            self._events.warn(
                f"event {tracking_event_name}", f"{tracking_event_name} is dropped: {error.error_message}"
            )
            return
        if not user_id:
            self._events.warn("anonymous", f"{tracking_event_name} is dropped: an event needs a targeting key.")
            return
        self._events.add(tracking_event_name, user_id, properties)


_providers: WeakSet[HalyardProvider] = WeakSet()


def _begin_in_child() -> None:
    for provider in list(_providers):
        provider._begin_in_child()


def _shutdown_all() -> None:
    for provider in list(_providers):
        provider.shutdown()


os.register_at_fork(after_in_child=_begin_in_child)
atexit.register(_shutdown_all)
