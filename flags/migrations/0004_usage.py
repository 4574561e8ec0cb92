import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("config", "0002_change_of_key"), ("flags", "0003_segment")]

    operations = [
        migrations.CreateModel(
            name="Usage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "environment_id",
                        "flag_key",
                        "hour",
                        "outcome",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("flag_key", models.CharField(max_length=100)),
                ("hour", models.DateTimeField()),
                ("outcome", models.CharField(max_length=100)),
                ("count", models.BigIntegerField()),
                (
                    "environment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="config.environment",
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["hour"], name="usage_by_age")]},
        ),
        migrations.CreateModel(
            name="LastUse",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "environment_id",
                        "flag_key",
                        "outcome",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("flag_key", models.CharField(max_length=100)),
                ("outcome", models.CharField(max_length=100)),
                ("hour", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="config.environment",
                    ),
                ),
            ],
        ),
    ]
