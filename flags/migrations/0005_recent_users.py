import django.db.models.deletion
from django.db import migrations, models

import config.documents


class Migration(migrations.Migration):
    dependencies = [
        ("config", "0005_keys_that_change_what_is_common"),
        ("flags", "0004_usage"),
    ]

    operations = [
        migrations.CreateModel(
            name="RecentUserSampling",
            fields=[
                (
                    "environment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="config.environment",
                    ),
                ),
                ("limit", models.BigIntegerField()),
                ("since", models.DateTimeField()),
                ("limit_before", models.BigIntegerField(default=None, null=True)),
                ("raised_at", models.DateTimeField(default=None, null=True)),
                ("erased_at", models.DateTimeField(default=None, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="RecentUser",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "environment_id", "user_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("user_id", models.CharField(max_length=200)),
                ("position", models.BigIntegerField()),
                ("attributes", models.JSONField(decoder=config.documents.StoredJSONDecoder)),
                ("seen_at", models.DateTimeField()),
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
            options={
                "indexes": [models.Index(fields=["environment", "position"], name="recent_user_by_position")],
            },
        ),
    ]
