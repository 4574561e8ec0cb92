"""What the previews of changes need to know of experiments: which attributes they read, and the variants of users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from config.models import Environment
from experiments.exposures.assignment import assigners
from experiments.models import Exposure, Status
from flags.models import RecentUser
from flags.usage.attributes import names_of_document


def attributes_read(environment_key: str) -> Iterator[str]:
    """Yield the names of the attributes that drafts and running experiments read."""
    for (key, _), experiment in assigners.state.items():
        if key == environment_key and experiment.status != Status.STOPPED:
            yield from names_of_document(experiment.document)


def stored_variants(environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the variants that recent users have, by user id and experiment key, with one query."""
    keys = {
        assigner.id: key for key in experiments if (assigner := assigners.state.get((environment.key, key))) is not None
    }
    recent = RecentUser.objects.filter(environment=environment).values("user_id")
    exposures = Exposure.objects.filter(experiment__in=keys, user_id__in=recent) if keys else Exposure.objects.none()
    variants: dict[str, dict[str, str]] = defaultdict(dict)
    for experiment_id, user_id, variant in exposures.values_list("experiment", "user_id", "variant"):
        variants[user_id][keys[experiment_id]] = variant
    return variants
