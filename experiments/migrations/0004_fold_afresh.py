from django.db import migrations


def fold_afresh(apps, schema_editor):
    """Sums count users for percentiles from here on: those that are there are computed from all events once more."""
    folds = apps.get_model("experiments", "Fold").objects.filter(experiment__frozen_at=None)
    folds.update(mark="")


class Migration(migrations.Migration):
    dependencies = [("experiments", "0003_measured_users")]

    operations = [migrations.RunPython(fold_afresh, migrations.RunPython.noop)]
