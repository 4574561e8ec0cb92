"""The page that promotes flags from another environment to the current one, or the other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from config import snapshot
from config.admin.columns import unbroken
from config.admin.current_environment import check_environment, current_environment, environments_of
from config.admin.kept_input import sent_input
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.admin.site import Confirmation, DomainAdmin, button, writer
from config.change_log.descriptions import describe_differences
from config.errors import DomainError
from config.models import Environment
from flags.admin.switching import FlagSwitch, ask_before_promoting, describe_changes, promotion_question
from flags.changes import flag_changes
from flags.changes.bulk import Written
from flags.changes.driven_rules import with_driven_rule
from flags.changes.promotion import fingerprint, promote
from flags.changes.properties import OFF
from flags.explanations.rule_words import describe_audience
from flags.models import Flag
from flags.snapshot import configuration

_MAX_FLAGS = 50
_MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class PromotedFlag:
    """The changes of one flag. `states` has its state and rules in the target before and after.

    `more` counts the lines that are not shown.
    """

    key: str
    states: Sequence[tuple[str, str, str]]
    lines: Sequence[str]
    more: int


@dataclass(frozen=True, slots=True)
class PromotionPreview:
    """What a promotion would change. `flags` are the first of `keys`.

    `seen` is the fingerprint of the changes, so that nothing else is promoted.
    """

    flags: Sequence[PromotedFlag]
    keys: Sequence[str]
    seen: str

    @property
    def number(self) -> int:
        return len(self.keys)

    @property
    def more(self) -> int:
        return self.number - len(self.flags)


@dataclass(frozen=True, slots=True)
class Way:
    """The environment to copy from, and the one to copy to."""

    source: Environment
    target: Environment

    @property
    def name(self) -> str:
        """The value of its button. Keys contain no colon."""
        return f"{self.source.key}:{self.target.key}"


def _ways(request: HttpRequest) -> list[Way]:
    """Return each way from or to the current environment, the usual one first.

    Flags usually go from an environment that is not protected to one that is.
    """
    here = current_environment(request)
    others = [environment for environment in environments_of(request) if environment != here]
    ways = [way for other in others for way in (Way(other, here), Way(here, other))]
    return sorted(ways, key=partial(_rank, here=here))


def _rank(way: Way, here: Environment) -> tuple[bool, bool]:
    return not way.target.protected or way.source.protected, way.target != here


def _chosen_way(ways: Sequence[Way], name: str | None, here: Environment) -> Way | None:
    """Return the way with this name. Without a name, return the usual way, unless several are usual."""
    if chosen := next((way for way in ways if way.name == name), None):
        return chosen
    if len(ways) > 1 and _rank(ways[0], here) == _rank(ways[1], here):
        return None
    return next(iter(ways), None)


class PromotionPage(DomainAdmin):
    """The page, its button above the form of a flag, and its action in the list."""

    def get_urls(self) -> list[Any]:
        return [self.route("promote/", self.promote_selected_view, "promote_selected"), *super().get_urls()]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        if not actions or len(environments_of(request)) < 2:
            return actions
        environment = current_environment(request)
        name = f"{environment.key}:promote"
        return {**actions, name: (_open_for_selected, name, "Promote …")}

    def promote_selected_view(self, request: HttpRequest) -> HttpResponse:
        """Show the page for the flags that were selected in the list."""
        # The address may name the flags, so that the page can be shared and reloaded.
        keys = [key for key in (sent_input(request) or request.GET).get("flags", "").split(",") if key]
        if not keys and request.method != "POST":
            return HttpResponseRedirect(self.address_of("changelist"))
        return self.promotion(request, keys, self.address_of("changelist"))

    @button("Promote", permission="change", icon="move_up")
    def promote(self, request: HttpRequest, object_id: str) -> HttpResponse:
        flag = self.find(request, object_id)
        if flag is None:
            return self.missing(request, object_id)
        return self.promotion(request, [flag.key], self.address_of("change", flag.pk), flag)

    def promotion(self, request: HttpRequest, keys: list[str], back: str, flag: Flag | None = None) -> HttpResponse:
        """Show the preview, or promote when the form is sent. Errors appear above the preview."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        snapshot.refresh()
        ways = _ways(request)
        way = _chosen_way(ways, sent_input(request).get("way"), current_environment(request))
        lacks = way is not None and lacks_reason(request, reason_setting(self, request, way.target))
        try:
            if way is not None and "seen" in request.POST and not lacks:
                self._promote(request, keys, way)
                return HttpResponseRedirect(back)
        except DomainError as refusal:
            messages.error(request, refusal.message)
        try:
            preview = _preview(request, keys, way) if way else None
        except DomainError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(self.address_of("changelist"))
        address = self.address_of("promote", flag.pk) if flag else self.address_of("promote_selected")
        context = {
            **{"keys": keys, "ways": ways, "way": way, "preview": preview, "original": flag},
            **{"confirmation": self._question(request, preview.keys, way) if way and preview else None},
            **{"consequences": self._describe_changes(request, preview.keys, way) if way and preview else []},
            **{"lacks_reason": "seen" in request.POST and lacks, "reason": reason_of(request)},
            **{"back": back, "address": address, "title": _title(keys, way)},
        }
        if way:
            context["reason_setting"] = reason_setting(self, request, way.target)
        return self.page(request, "admin/flags/flag/promote.html", context)

    def _question(self, request: HttpRequest, changed: Sequence[str], way: Way) -> Confirmation | None:
        """Return the question about switching, which the page asks too, so that nobody is asked twice."""
        return promotion_question(self, request, _switches(changed, way), way.target)

    def _describe_changes(self, request: HttpRequest, changed: Sequence[str], way: Way) -> list[str]:
        return describe_changes(self, request, _switches(changed, way), way.target)

    def _promote(self, request: HttpRequest, keys: Sequence[str], way: Way) -> None:
        check_environment(request, request.POST.get("opened_in"))
        seen = request.POST["seen"]
        changing = _changing(request, keys, way, seen)
        ask_before_promoting(self, request, _switches([flag.key for flag in changing], way), way.target)
        written = promote(
            source=way.source,
            target=way.target,
            keys=keys,
            reason=reason_of(request),
            seen=seen,
            **writer(request),
        )
        what = f"{written[0].key} is" if len(written) == 1 else f"{len(written)} flags are"
        self.succeed(request, f"{what} promoted from {way.source.name} to {way.target.name}.")


def _open_for_selected(model_admin: PromotionPage, request: HttpRequest, flags: Any) -> HttpResponse:
    keys = list(flags.order_by("key").values_list("key", flat=True))
    return model_admin.promotion(request, keys, model_admin.address_of("changelist"))


def _switches(keys: Sequence[str], way: Way) -> list[FlagSwitch]:
    wanted = {flag.key: flag for flag in Flag.objects.in_environment(way.source).filter(key__in=keys)}
    sources = configuration(way.source.key).flags
    switches = []
    for flag in Flag.objects.in_environment(way.target).filter(key__in=keys):
        as_json = None
        if known := sources.get(flag.key):
            as_json = {**known.source, "rules": with_driven_rule(flag.rules, known.source["rules"])}
        switches.append(FlagSwitch(flag, wanted[flag.key].enabled, as_json))
    return switches


def _changing(request: HttpRequest, keys: Sequence[str], way: Way, seen: str | None = None) -> Sequence[Written]:
    return promote(source=way.source, target=way.target, keys=keys, is_dry_run=True, seen=seen, **writer(request))


def _preview(request: HttpRequest, keys: Sequence[str], way: Way) -> PromotionPreview:
    written = _changing(request, keys, way)
    now = timezone.now()
    flags = [_preview_flag(flag, way.target, now) for flag in written[:_MAX_FLAGS]]
    return PromotionPreview(flags, [flag.key for flag in written], fingerprint(written))


def _preview_flag(written: Written, target: Environment, now: datetime) -> PromotedFlag:
    before, after = (
        (as_json or {"states": {}})["states"].get(target.key, OFF) for as_json in (written.before, written.after)
    )
    states = [
        (
            when,
            "on" if state["enabled"] else "off",
            unbroken(describe_audience(state["rules"], now, is_on=state["enabled"])),
        )
        for when, state in ((f"{target.name} now", before), (f"{target.name} then", after))
    ]
    lines = describe_differences(before, after, flag_changes.KIND, now)
    return PromotedFlag(written.key, states, lines[:_MAX_LINES], max(0, len(lines) - _MAX_LINES))


def _title(keys: Sequence[str], way: Way | None) -> str:
    what = keys[0] if len(keys) == 1 else f"{len(keys)} flags"
    return f"Promote {what} from {way.source.name} to {way.target.name}" if way else f"Promote {what}"
