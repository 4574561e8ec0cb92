"""Bringing the totals of an experiment in line with everything that was committed before, whoever committed it when.

What is new is told by its arrival (see `config.arrivals`). Users of whom something is new are computed afresh from all
that is stored of them, so that no figure depends on the order in which things became known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import date, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet

from config.arrivals import is_mark_of_here, take_mark
from config.group_commit import is_conflict
from experiments.exposures import references
from experiments.metrics.definition import Definition
from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment, Fold, UserTotal
from experiments.totals.news import News, count_events, find_beyond, find_news, has_news
from experiments.totals.statements import rewrite_totals, update_totals
from experiments.totals.summing import add_up, add_up_exposures, find_cap
from experiments.totals.sums import exposed_users

USERS_AT_ONCE = 5000
_MARK_GROWS_OLD = timedelta(minutes=1)
"""After this it is taken anew though nothing happened, so that the next look need not go far back."""
_EVENTS_A_USER = 10
"""So many events are gone through in one pass while the totals of one user are found by an index."""
_MOST_ATTEMPTS = 20

Result = TypeVar("Result")


def fold(experiment: Experiment, at: datetime) -> Fold:
    """Make the totals and sums of a started experiment exact for everything that was committed before this call.

    In a transaction of its own, or the caller's; where nothing is new it writes nothing. `at` is the present moment.
    """
    stored = Fold.objects.filter(experiment=experiment).first()
    if stored is not None and _is_current(stored, experiment, at):
        return stored
    return in_one_snapshot(experiment, lambda held: bring_up_to_date(held, at))


def bring_up_to_date(held: Fold, at: datetime) -> Fold:
    """Do that to an experiment whose fold is held, in the one snapshot that the caller's transaction sees."""
    mark = take_mark()
    _Folding(held, Experiment.objects.get(pk=held.pk)).run()
    held.mark, held.folded_at = mark, at
    held.save()
    return held


def in_one_snapshot(experiment: Experiment, work: Callable[[Fold], Result]) -> Result:
    """Work on an experiment whose fold is held, in a transaction of its own that sees one moment of the database.

    Between two statements that see different moments a user might move from one day to another, and count on both. A
    transaction begins to see before it can hold: where somebody else has changed the fold meanwhile, it begins again.
    """
    if connection.in_atomic_block:
        return work(*hold([experiment.pk]))
    for attempt in range(_MOST_ATTEMPTS):
        try:
            with transaction.atomic():
                if connection.vendor == "postgresql":
                    with connection.cursor() as cursor:
                        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                return work(*hold([experiment.pk]))
        except OperationalError as error:
            if not is_conflict(error) or attempt == _MOST_ATTEMPTS - 1:
                raise
        with transaction.atomic():  # until whoever was first is done
            hold([experiment.pk])
    raise AssertionError("the last attempt returns or raises")


def hold(experiment_ids: Collection[UUID]) -> list[Fold]:
    """The folds of these experiments, locked, in the caller's transaction: nobody else changes their totals now.

    All who hold several lock them in the order of their keys, and before any exposures.
    """
    wanted = Fold.objects.filter(pk__in=experiment_ids)
    missing = sorted({*experiment_ids}.difference(wanted.values_list("pk", flat=True)))
    Fold.objects.bulk_create([Fold(experiment_id=each) for each in missing], ignore_conflicts=True)
    return list(wanted.order_by("pk").select_for_update())


def _is_current(stored: Fold, experiment: Experiment, at: datetime) -> bool:
    if stored.is_stale or experiment.frozen_at is not None:
        return not stored.is_stale
    if not stored.mark or stored.stopped_at != experiment.stopped_at or not is_mark_of_here(stored.mark):
        return False
    if stored.folded_at is None or at - stored.folded_at > _MARK_GROWS_OLD:
        return False
    return not has_news(experiment, definitions_of(experiment), references(experiment), stored.mark)


class _Folding:
    """One experiment being brought in line, in a transaction that holds its fold and sees one moment."""

    def __init__(self, held: Fold, experiment: Experiment) -> None:
        self.held, self.experiment = held, experiment
        self.definitions, self.own = definitions_of(experiment), references(experiment)

    def run(self) -> None:
        is_anew = self.held.is_stale or self.held.stopped_at != self.experiment.stopped_at
        if self.experiment.frozen_at is None:
            news = self._find_news()
            days = [self._write(place, definition, news) for place, definition in enumerate(self.definitions)]
        else:  # only an erasure can change anything
            news, days = News(), [set() for _ in self.definitions]
        for place, definition in enumerate(self.definitions):
            self._add_up(place, definition, None if is_anew else days[place])
        if is_anew or news is None or news.exposed:
            add_up_exposures(self.experiment)
        self.held.stopped_at, self.held.is_stale = self.experiment.stopped_at, False

    def _find_news(self) -> News | None:
        """What is new since the last time. None where that cannot be told, as at the first time."""
        if not self.held.mark or not is_mark_of_here(self.held.mark):
            self._totals.delete()
            return None
        news = find_news(self.experiment, self.definitions, self.own, self.held.mark)
        if self.experiment.stopped_at is not None and self.held.stopped_at is None:
            beyond = find_beyond(self.experiment, self.definitions, self.own, self.experiment.stopped_at)
            for users in _chunks(beyond):
                self._totals.filter(user_id__in=users).delete()
            news.exposed |= beyond
        return news

    def _write(self, place: int, definition: Definition, news: News | None) -> set[date] | None:
        """Compute totals afresh, and return the days of exposure of those that were or are others; None: any day."""
        everyone = exposed_users(self.experiment).values_list("user_id", flat=True)
        number = everyone.count() if news is None else len(news.touched(definition))
        if number * _EVENTS_A_USER > count_events(self.experiment, definition):
            rewrite_totals(self.experiment, place, definition, self.own)
            return None
        if news is None:
            self._update(place, definition, set(everyone))
            return None
        moved = self._days(place, news.exposed & news.touched(definition))
        return moved | self._update(place, definition, news.touched(definition))

    def _update(self, place: int, definition: Definition, users: set[str]) -> set[date]:
        chunks = (update_totals(self.experiment, place, definition, self.own, each) for each in _chunks(users))
        return set[date]().union(*chunks)

    def _days(self, place: int, users: set[str]) -> set[date]:
        """On which days these users were exposed, by their totals as they are now."""
        totals = (self._totals.filter(metric=place, user_id__in=each) for each in _chunks(users))
        return {day for each in totals for day in each.values_list("day", flat=True).distinct()}

    def _add_up(self, place: int, definition: Definition, days: set[date] | None) -> None:
        """Take the sums anew: of these days, or of all. Where the cap is another one now, all are."""
        if days is not None and not days:
            return
        caps, key = self.held.caps, str(place)
        cap = find_cap(self.experiment, place, definition)
        if cap != caps.get(key):
            days = None
        self.held.caps = {name: each for name, each in {**caps, key: cap}.items() if each is not None}
        add_up(self.experiment, place, cap, days)

    @property
    def _totals(self) -> QuerySet[UserTotal]:
        places = range(len(self.definitions))  # by which their key finds them
        return UserTotal.objects.filter(experiment=self.experiment, metric__in=places)


def _chunks(users: set[str]) -> Iterator[list[str]]:
    """In the order of the keys of the totals."""
    ordered = sorted(users)
    return (ordered[at : at + USERS_AT_ONCE] for at in range(0, len(ordered), USERS_AT_ONCE))
