import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

import config.documents


class Migration(migrations.Migration):
    dependencies = [
        ("config", "0004_epoch"),
        ("experiments", "0009_sums_by_phase"),
    ]

    operations = [
        migrations.CreateModel(
            name="Calibration",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("metric", models.CharField(max_length=200)),
                ("definition", models.JSONField(decoder=config.documents.StoredJSONDecoder)),
                ("at", models.DateTimeField()),
                ("rounds", models.PositiveIntegerField()),
                ("false_positives", models.FloatField()),
                ("is_as_promised", models.BooleanField()),
                (
                    "environment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="config.environment",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["environment", "metric", "at"], name="calibration_by_metric")],
            },
        ),
    ]
