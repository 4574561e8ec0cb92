"""The plan of an experiment in words, as the pages of the admin show it. Pure."""

from __future__ import annotations

from config.documents import Document
from experiments.models import Experiment
from experiments.models.plan import registered_plan

_DIRECTIONS = {"increase": "more is better", "decrease": "less is better"}


def describe_plan(experiment: Experiment) -> str:
    """Return `20,000 users planned, effects from 5 %, sequential, at least 7 days, look-back 28 days, ...`."""
    return describe_plan_document(registered_plan(vars(experiment)))


def describe_plan_document(plan: Document) -> str:
    """Describe a plan as it is registered."""
    planned, effect, days = plan["plannedSampleSize"], plan["minimumEffect"], plan["lookbackDays"]
    parts = [
        f"{planned:,} users planned" if planned else "",
        f"effects from {100 * effect:.4g} %" if effect else "",
        plan["analysis"],
        f"at least {_days(plan['minimumDays'])}" if plan["minimumDays"] else "",
        f"look-back {_days(days)}" if days else "no look-back",
        f"tuned for {plan['tuningSampleSize']:,} users",
    ]
    return ", ".join(filter(None, parts))


def describe_registration(registration: Document) -> str:
    """Return the primary metric and the plan that were registered at the start."""
    primary, plan = registration["primaryMetric"], describe_plan_document(registration)
    direction = _DIRECTIONS[registration["direction"]] if primary else ""
    text = f"primary metric {primary}, {direction}" if primary else "no primary metric"
    return f"{text}, {plan}" if plan else text


def _days(number: int) -> str:
    return f"{number:,} day" + ("" if number == 1 else "s")
