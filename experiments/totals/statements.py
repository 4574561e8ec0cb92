"""The statements that write totals, on either database."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Sum

from events.counts import quarter_of
from events.models import EventCount
from experiments.models import Experiment, UserTotal
from experiments.totals.dialects import Parameters, execute, fetch, is_chosen, planned
from experiments.totals.queries import TotalsQuery, Users, earliest_event

_TABLE = UserTotal._meta.db_table
_COLUMNS = "experiment_id, user_id, variant, phase, exposed_at, is_in_several_variants, figures"
_OR_REPLACE = """
    WHERE TRUE ON CONFLICT (experiment_id, user_id) DO UPDATE SET
        variant = excluded.variant, phase = excluded.phase, exposed_at = excluded.exposed_at,
        is_in_several_variants = excluded.is_in_several_variants, figures = excluded.figures
    RETURNING user_id
"""

BY_INDEX = {
    **dict.fromkeys(("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_sort"), "off"),
    "work_mem": "64MB",
}
"""How the events of some users are found best: by an index for each user."""
IN_ONE_PASS = {
    **dict.fromkeys(("enable_nestloop", "enable_mergejoin", "enable_sort", "jit"), "off"),
    "work_mem": "256MB",
}
"""How all events are gone through best: once, with the exposures and a million users at hand."""


_EVENTS_A_USER = 30
"""So many events are gone through in one pass while the totals of one user are found by an index."""


def is_quicker_in_one_pass(experiment: Experiment, users: int) -> bool:
    """Whether the totals of so many users are, by how many events of anybody's there are."""
    since = quarter_of(earliest_event(experiment))
    here = EventCount.objects.filter(environment=experiment.environment_id, quarter__gte=since)
    events: int = here.aggregate(events=Sum("count"))["events"] or 0
    return users * _EVENTS_A_USER > events


def write_totals(experiment: Experiment, users: Users) -> None:
    """Compute the totals of these users, those not exposed having none afterwards, or of all, who have none yet."""
    query = TotalsQuery(experiment)
    whose = query.parameters.put(experiment.pk)
    computed = f"SELECT {whose}, computed.* FROM ({query.totals(users)}) AS computed"  # noqa: S608 (no data)
    statement = f"INSERT INTO {_TABLE} ({_COLUMNS}) {computed}"
    if users is None:
        with planned(**IN_ONE_PASS):
            execute(statement, query.parameters)
        return
    with planned(**BY_INDEX):
        written = fetch(f"{statement} {_OR_REPLACE}", query.parameters)
    if others := {*users}.difference(user_id for (user_id,) in written):
        delete_totals(experiment, sorted(others))


def delete_totals(experiment: Experiment, users: Sequence[str]) -> None:
    parameters = Parameters()
    is_theirs = f"experiment_id = {parameters.put(experiment.pk)} AND {is_chosen('user_id', users, parameters.put)}"
    execute(f"DELETE FROM {_TABLE} WHERE {is_theirs}", parameters)  # noqa: S608 (no data)
