import django.db.models.deletion
from django.db import migrations, models

from config.documents import StoredJSONDecoder


class Migration(migrations.Migration):
    dependencies = [("experiments", "0021_totals_near_caps")]

    operations = [
        migrations.CreateModel(
            name="StoredOutcome",
            fields=[
                (
                    "experiment",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="outcome",
                        serialize=False,
                        to="experiments.experiment",
                    ),
                ),
                ("stopped_at", models.DateTimeField()),
                ("computed_at", models.DateTimeField()),
                ("is_final", models.BooleanField()),
                ("document", models.JSONField(decoder=StoredJSONDecoder)),
            ],
        ),
    ]
