"""The model of the state of aggregates gets the name that it has in the code; its table and columns stay."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0011_imported_exposures")]

    operations = [
        # The table keeps its name, so that the release before can use it meanwhile, and nothing is written.
        migrations.AlterModelTable("fold", "experiments_fold"),
        migrations.RenameModel("Fold", "AggregateState"),
        migrations.AlterField(
            "aggregatestate",
            "experiment",
            models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name="aggregate_state",
                serialize=False,
                to="experiments.experiment",
            ),
        ),
    ]
