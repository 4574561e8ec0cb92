from django.db import migrations

from config.timestamps import format_timestamp


def begin(apps, schema_editor):
    """Experiments of before have had one phase since their start, and are decided by what they measured then."""
    experiments = apps.get_model("experiments", "Experiment")
    for experiment in experiments.objects.exclude(status="draft").filter(registration__isnull=True):
        goals = [each for each in experiment.definitions if each["role"] == "goal"]
        experiment.phases = [
            {
                "startedAt": format_timestamp(experiment.started_at),
                "variants": experiment.variants,
                "percentage": 100,
                "conditions": [],
                "reason": "",
            }
        ]
        experiment.registration = {
            "primaryMetric": goals[0]["key"] if goals else None,
            "direction": goals[0]["direction"] if goals else None,
            "windowHours": goals[0]["windowHours"] if goals else None,
            "metrics": [each["key"] for each in experiment.definitions],
            "plannedSampleSize": None,
        }
        experiment.save(update_fields=["phases", "registration"])


class Migration(migrations.Migration):
    dependencies = [("experiments", "0007_audiences_and_phases")]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop)]
