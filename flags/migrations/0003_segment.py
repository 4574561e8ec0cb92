import uuid_utils.compat
from django.db import migrations, models

import config.documents


class Migration(migrations.Migration):
    dependencies = [("flags", "0002_flag_properties")]

    operations = [
        migrations.CreateModel(
            name="Segment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(max_length=100, unique=True)),
                ("description", models.CharField(blank=True, default="", max_length=2000)),
                ("conditions", models.JSONField(blank=True, decoder=config.documents.StoredJSONDecoder, default=list)),
                ("user_ids", models.JSONField(blank=True, decoder=config.documents.StoredJSONDecoder, default=list)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("version", models.BigIntegerField(editable=False)),
            ],
            options={
                "ordering": ("key",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("key__regex", "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\\Z")),
                        name="segment_key_format",
                    )
                ],
            },
        ),
    ]
