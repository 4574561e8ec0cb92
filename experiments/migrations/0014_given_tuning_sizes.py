from django.db import migrations
from django.db.models import F

TUNING_SIZE = 5_000


def copy_given_sizes(apps, schema_editor):
    """An N* other than the default was given; one that equals it may follow from the plan."""
    experiments = apps.get_model("experiments", "Experiment").objects.exclude(tuning_size=TUNING_SIZE)
    experiments.update(given_tuning_size=F("tuning_size"))


class Migration(migrations.Migration):
    dependencies = [("experiments", "0013_plans_and_metrics")]

    operations = [migrations.RunPython(copy_given_sizes, migrations.RunPython.noop)]
