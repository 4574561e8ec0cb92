"""How lists of experiments and metrics are narrowed."""

from __future__ import annotations

import django_filters
from django.db.models import Q, QuerySet

from config.api.filters import TextFilter
from experiments.models import Experiment, ExperimentQuerySet, Metric, Status


class ExperimentFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=Status.choices, label="Only experiments of this status.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Experiment
        fields = ()

    def search_text(self, experiments: ExperimentQuerySet, _name: str, text: str) -> ExperimentQuerySet:
        return experiments.filter(_mentions(text))


class MetricFilter(django_filters.FilterSet):
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Metric
        fields = ()

    def search_text(self, metrics: QuerySet[Metric], _name: str, text: str) -> QuerySet[Metric]:
        return metrics.filter(_mentions(text))


def _mentions(text: str) -> Q:
    return Q(key__icontains=text) | Q(description__icontains=text)
