"""The query behind totals: what the metrics of an experiment make of the events of each exposed user, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from django.db.models import QuerySet

from events.models import Event
from experiments.exposures import references
from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment, Exposure
from experiments.totals.dialects import Parameters, dialect, figures, is_chosen
from experiments.totals.figures import Figures, since_exposure

LOOKBACK = timedelta(days=14)
"""How long before the exposure a user's history reaches."""
_SKEW = timedelta(days=1)
"""An exposure may lie a little before the start, by the clock of another host."""

Users = Sequence[str] | None
"""Their ids; None stands for all."""


def earliest_event(experiment: Experiment) -> datetime:
    """Events before this moment matter to nobody in a started experiment."""
    assert experiment.started_at is not None  # noqa: S101 (drafts have no totals)
    return experiment.started_at - LOOKBACK - _SKEW


def exposed_users(experiment: Experiment) -> QuerySet[Exposure]:
    """The exposures that count. An assignment that was under way during the stop may carry a later moment."""
    exposed = Exposure.objects.filter(experiment=experiment)
    return exposed if experiment.stopped_at is None else exposed.filter(exposed_at__lte=experiment.stopped_at)


class TotalsQuery:
    """The SQL that computes totals from events and exposures, and its parameters, which each part leaves behind."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.definitions = experiment, definitions_of(experiment)
        self.parameters = Parameters()
        self._put = self.parameters.put

    def totals(self, users: Users) -> str:
        """The user_id, variant, phase, exposed_at, is_in_several_variants and figures of each."""
        computed = (figure for each in self.definitions for figure in Figures(each, self._put).all())
        # Only what is grouped by is a key, and what one aggregate says twice, PostgreSQL computes once.
        return f"""
            SELECT exposed.user_id, exposed.variant, phase, exposed_at, is_in_several_variants,
                {figures(computed)} AS figures
            FROM {Exposure._meta.db_table} AS exposed LEFT JOIN {Event._meta.db_table} AS happened
                ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())}
            WHERE {self._is_exposed(users)}
            GROUP BY experiment_id, exposed.user_id
        """  # noqa: S608 (no data)

    def _is_exposed(self, users: Users) -> str:
        conditions = [f"experiment_id = {self._put(self.experiment.pk)}"]
        if users is not None:
            conditions.append(is_chosen("exposed.user_id", users, self._put))
        if self.experiment.stopped_at is not None:
            conditions.append(f"exposed_at <= {self._put(self.experiment.stopped_at)}")
        return " AND ".join(conditions)

    def _matters(self) -> Iterator[str]:
        experiment, earliest, own = self.experiment, self._put(earliest_event(self.experiment)), dialect()
        names = sorted({name for each in self.definitions for name in each.events}) or [""]  # no event has no name
        yield f"environment_id = {self._put(experiment.environment_id)}"
        # By no index on names: before it has statistics, PostgreSQL may go through all events of a name for each user.
        yield f"(name IN ({self._each(names)})) IS TRUE"
        yield f"experiment IN ({self._each(['', *references(experiment)])})"
        yield f"timestamp >= {earliest} AND received_at >= {earliest}"
        if experiment.stopped_at is not None:
            yield f"{own.counted_at} <= {self._put(experiment.stopped_at)}"
        yield f"{own.counted_at} >= {since_exposure(-LOOKBACK, self._put)}"

    def _each(self, values: Iterable[str]) -> str:
        return ", ".join(map(self._put, values))
