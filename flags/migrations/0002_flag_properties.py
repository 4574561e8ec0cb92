import django.db.models.deletion
from django.db import migrations, models

import config.documents

TYPES = ["boolean", "string", "number", "object"]


def json_field(**options):
    return models.JSONField(blank=True, decoder=config.documents.StoredJSONDecoder, **options)


class Migration(migrations.Migration):
    dependencies = [("flags", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="flag",
            name="type",
            field=models.CharField(blank=True, choices=[(name, name) for name in TYPES], default="", max_length=10),
        ),
        migrations.AddField(model_name="flag", name="variants", field=json_field(default=list)),
        migrations.AddField(
            model_name="flag", name="off_variant", field=models.CharField(blank=True, default="", max_length=100)
        ),
        migrations.AddField(
            model_name="flag", name="default_variant", field=models.CharField(blank=True, default="", max_length=100)
        ),
        migrations.AddField(model_name="flag", name="schema", field=json_field(null=True)),
        migrations.AddField(model_name="flag", name="prerequisites", field=json_field(default=list)),
        migrations.AddField(
            model_name="flag", name="owner", field=models.CharField(blank=True, default="", max_length=200)
        ),
        migrations.AddField(model_name="flag", name="expires_at", field=models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            model_name="flag", name="archived_at", field=models.DateTimeField(editable=False, null=True)
        ),
        migrations.AddConstraint(
            model_name="flag",
            constraint=models.CheckConstraint(condition=models.Q(("type__in", ["", *TYPES])), name="flag_type_known"),
        ),
        migrations.CreateModel(
            name="FlagTag",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50)),
                (
                    "flag",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tag_rows", to="flags.flag"
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
                "constraints": [models.UniqueConstraint(fields=("name", "flag"), name="flag_tag_once_a_flag")],
            },
        ),
    ]
