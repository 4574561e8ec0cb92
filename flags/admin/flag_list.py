"""The list of flags, with a switch for each environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from config import snapshot
from config.admin.columns import brief, column, in_two_lines, time_cell, unbroken
from config.admin.current_environment import current_environment, environments_of
from config.admin.site import DomainAdmin
from config.admin.template_filters import link_users_briefly
from config.change_log.named_users import users_in
from config.models import Environment
from flags.explanations.rule_words import describe_audience
from flags.explanations.upcoming import next_step
from flags.models import Flag, FlagState
from flags.usage.staleness import stale_reasons

_LONG = ("variants", "schema", "prerequisites")
_SHORT = 40  # characters that a cell shows on any screen
_LONG_WORDS = 120  # characters that it shows on a wide screen
_LONG_KEY = 30  # characters that a phone shows


class FlagList(DomainAdmin):
    list_per_page = 28  # a page with three environments then stays under 120 kB

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        snapshot.refresh()  # the filter by experiment reads it
        answer: HttpResponse = super().changelist_view(request, extra_context)
        return answer

    def for_list(self, queryset: Any) -> Any:
        return queryset.defer(*_LONG)

    def for_page(self, request: HttpRequest, queryset: Any) -> Any:
        # Sorting in SQL would compute the stale reasons of all flags.
        shown = self.for_list(self.get_queryset(request)).filter(pk__in=queryset.values("pk"))
        if len(environments_of(request)) > 1:
            elsewhere = FlagState.objects.exclude(environment=current_environment(request))
            shown = shown.prefetch_related(Prefetch("states", elsewhere, to_attr="states_elsewhere"))
        return shown.order_by(*queryset.query.order_by)

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[Flag], Any]]:
        columns = [self._column_of(request, environment) for environment in environments_of(request)]
        return ["shown_key", *columns, "shown_update"]

    def next_moment(self, request: HttpRequest, rows: Any, now: datetime) -> datetime | None:
        states = (state for flag in rows for state in (flag, *getattr(flag, "states_elsewhere", ())))
        return min((time for state in states if (time := next_step(state.rules, now))), default=None)

    @column("Flag", ordering="key")
    def shown_key(self, flag: Flag) -> SafeString:
        tags = format_html_join("", '<span class="hy-word">{}</span>', ((tag,) for tag in flag.tags))
        return format_html(
            "{}{}",
            in_two_lines(_name(flag), brief(flag.description)),
            format_html('<span class="hy-words">{}</span>', tags) if tags else "",
        )

    @column("Updated", ordering="updated_at")
    def shown_update(self, flag: Flag) -> SafeString | None:
        return time_cell(flag.updated_at)

    def _column_of(self, request: HttpRequest, environment: Environment) -> Callable[[Flag], SafeString]:
        """Return the column of an environment: a switch, and for whom it turns the flag on.

        The switch is a button of the list's form, which has the CSRF token.
        """
        may_change, now = self.has_change_permission(request), timezone.now()
        query = request.GET.urlencode()
        address = f"toggle/?{query}" if query else "toggle/"
        is_here = environment == current_environment(request)

        def cell(flag: Flag, is_on: bool, rules: Sequence[dict[str, Any]]) -> SafeString:
            if not may_change or flag.archived_at:
                state = format_html('<span class="hy-state hy-state-{0}">{0}</span>', "on" if is_on else "off")
            else:
                state = format_html(
                    '<button class="hy-switch" role="switch" aria-checked="{}" name="switch" value="{}" '
                    'formaction="{}/{}" aria-label="{}"></button>',
                    "true" if is_on else "false",
                    f"{environment.key}:{'off' if is_on else 'on'}",
                    flag.pk,
                    address,
                    f"{flag.key} in {environment.name}",
                )
            words = unbroken(describe_audience(rules, now, is_on=is_on))
            return format_html("{}{}", state, _words(words, flag.key, environment, is_here=is_here))

        if is_here:

            @column(environment.name, ordering="enabled")
            def switch_here(flag: Flag) -> SafeString:
                return cell(flag, flag.enabled, flag.rules)

            return switch_here

        @column(environment.name)
        def switch(flag: Flag) -> SafeString:
            states: Sequence[FlagState] = flag.states_elsewhere  # type: ignore[attr-defined]  # see `for_page`
            state = next((state for state in states if state.environment_id == environment.pk), None)
            return cell(flag, state.enabled, state.rules) if state else cell(flag, is_on=False, rules=())

        return switch


def _words(words: str, key: str, environment: Environment, *, is_here: bool) -> SafeString:
    """Return for whom a flag is on, or would be on.

    Nothing is left out, because the last step of a ramp may matter most. The style sheet folds long words, and phones
    show only the current environment.
    """
    if not words:
        return SafeString("")
    shown = format_html("<small>{}</small>", link_users_briefly(words, "" if is_here else environment.key))
    is_long = len(words) > _LONG_WORDS
    if not is_long and not (is_here and len(words) > _SHORT):
        return shown
    kind = SafeString(' class="hy-long"') if is_long else ""
    if not users_in(words):
        return format_html("<details{}><summary>{}</summary></details>", kind, shown)
    # HTML allows no link inside a summary.
    name = format_html('<span class="hy-unseen">The users of {}:</span>', key)
    return format_html("{}<details{}><summary>{}</summary></details>", shown, kind, name)


def _name(flag: Flag) -> SafeString:
    """Return the key and the badges. Phones show one line of them, so long keys have a tooltip."""
    badges, is_long = _badges(flag), len(flag.key) > _LONG_KEY
    if not badges and not is_long:
        return format_html("{}", flag.key)
    title = format_html(' title="{}"', flag.key) if is_long else ""
    return format_html('<span class="hy-key"{}>{} </span>{}', title, flag.key, badges)


def _badges(flag: Flag) -> SafeString:
    if flag.archived_at:
        return format_html('<span class="hy-state hy-state-off">{}</span>', "archived")
    reasons = ((reason.meaning, reason.replace("_", " ")) for reason in stale_reasons(flag))
    return format_html_join(" ", '<span class="hy-state hy-state-warning" title="{}">{}</span>', reasons)
