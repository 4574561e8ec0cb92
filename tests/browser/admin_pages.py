"""The addresses of all pages of the admin, with the data of the demo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import URLPattern, reverse

from config.models import Change
from events.models import Event
from experiments.models import Experiment
from flags.models import Flag

_NO_PAGES = frozenset(
    {
        # They answer scripts.
        "revision",
        "events_event_tail",
        "flags_flag_audiences",
        "flags_flag_known",
        "flags_flag_preview",
        "flags_flag_preview_new",
        "flags_flag_seen",
        "experiments_metric_event",
        "experiments_experiment_results_changed",
        # They are files.
        "experiments_experiment_plan_drawing",
        "experiments_experiment_plot",
        "experiments_experiment_results_csv",
        "experiments_experiment_results_json",
        # They only take forms, and lead to another page.
        "switch_environment",
        "config_change_undo",
        "config_webhook_deliveries",
        "flags_flag_toggle",
        "experiments_experiment_comment",
        "experiments_experiment_comment_delete",
        "experiments_experiment_user_force",
        "experiments_experiment_use_plan",  # below, with a plan
        # Nobody may do this, so the page of that failure is shown, and one of those is enough.
        "config_change_add",
        "config_change_delete",
        "config_delivery_add",
        "config_delivery_delete",
        "events_event_add",
        "events_event_delete",
    }
)
_STEPS = ("hypothesis", "audience", "variants", "metrics", "plan")
_OF_SEVERAL = {"flags_flag_change", "experiments_experiment_change", "experiments_experiment_results"}
"""The pages that differ much between two objects of one kind."""


def addresses() -> Iterator[str]:
    """Yield them without the root of the admin. A new page of a model is among them by itself."""
    yield from ("", "password_change/", "flags/", "no-such-page/")
    for model, pages in admin.site._registry.items():
        for pattern in pages.get_urls():
            if pattern.name and pattern.name not in _NO_PAGES:
                yield from _addresses_of(pattern, model)
    user, keys = Event.objects.latest("timestamp").user_id, Flag.objects.values_list("key", flat=True)
    yield f"experiments/experiment/user/?id={user}"
    yield f"experiments/experiment/user/erase/?id={user}"
    yield f"events/event/named/?event={Event.objects.latest('timestamp').name}"
    yield f"events/event/?userId={user}"
    lists_users = Flag.objects.get(key="beta-dashboard").pk
    yield from (f"flags/flag/{lists_users}/change/", f"flags/flag/{lists_users}/history/")
    yield "flags/flag/?q=nothing-is-called-so"
    yield f"flags/flag/promote/?flags={','.join(keys[:3])}"
    yield "experiments/experiment/add/?all=true"
    draft = Experiment.objects.filter(status="draft")[0].pk
    yield f"experiments/experiment/{draft}/use_plan/sequential/?baseline=0.1&mde=0.1"


def _addresses_of(pattern: URLPattern, model: type[Model]) -> Iterator[str]:
    names = pattern.pattern.converters
    for item in _objects_of(pattern.name or "", model) if names else [None]:
        for step in _STEPS if "step" in names else ("",):
            values = _values(item, step)
            yield reverse(f"admin:{pattern.name}", kwargs={name: values[name] for name in names}).removeprefix(
                "/admin/"
            )


def _objects_of(page: str, model: type[Model]) -> list[Model]:
    objects = model._default_manager.all()
    if page in _OF_SEVERAL:
        return list(objects if model is Experiment else objects.filter(key__in=["new-checkout", "delivery-date"]))
    if model is Experiment:
        needed = "draft" if page.rpartition("_")[2] in ("guided", "start", "delete") else "running"
        return list(objects.filter(status=needed)[:1])
    return list(objects.filter(key="new-checkout") if model is Flag else objects[:1])


def _values(item: Any, step: str) -> Mapping[str, Any]:
    change = Change.objects.filter(object_id=str(item.pk)).first() if item is not None else None
    return {
        "object_id": item.pk if item is not None else "",
        "id": item.pk if item is not None else "",
        "step": step,
        "revision": change.revision if change else 1,
        "metric_index": 0,
    }
