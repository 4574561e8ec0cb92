import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("config", "0002_change_of_key"),
        ("events", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="event",
            name="variant",
            field=models.CharField(blank=True, default="", max_length=101),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(
                    models.Q(("experiment", ""), _negated=True), models.Q(("variant", ""), _negated=True)
                ),
                fields=["environment", "experiment", "variant", "timestamp", "id"],
                name="event_by_variant",
            ),
        ),
        migrations.CreateModel(
            name="EventCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "environment_id",
                        "name",
                        "quarter",
                        "stripe",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("quarter", models.IntegerField()),
                ("stripe", models.SmallIntegerField()),
                ("count", models.BigIntegerField()),
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
                "indexes": [models.Index(fields=["environment", "quarter"], name="event_count_by_time")],
            },
        ),
    ]
