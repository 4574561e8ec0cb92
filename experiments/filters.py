"""How lists of experiments are narrowed."""

from __future__ import annotations

import django_filters
from django.db.models import Q

from config.api.filters import TextFilter
from experiments.models import Experiment, ExperimentQuerySet, Status


class ExperimentFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=Status.choices, label="Only experiments of this status.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Experiment
        fields = ()

    def search_text(self, experiments: ExperimentQuerySet, _name: str, text: str) -> ExperimentQuerySet:
        return experiments.filter(Q(key__icontains=text) | Q(description__icontains=text))
