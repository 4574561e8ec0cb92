import re

from django.db import migrations, models

# The words by which `config.keys.environments` knew a production environment when this was written.
PRODUCTION = re.compile(r"(?<![a-z])(prod|production|live)(?![a-z])", re.IGNORECASE)
REASONS = ["none", "optional", "required"]


def protect_production(apps, schema_editor):
    environments = apps.get_model("config", "Environment").objects
    keys = [key for key in environments.values_list("key", flat=True) if PRODUCTION.search(key)]
    environments.filter(key__in=keys).update(protected=True)


class Migration(migrations.Migration):
    dependencies = [("config", "0005_keys_that_change_what_is_common")]

    operations = [
        migrations.AddField(
            model_name="environment", name="protected", field=models.BooleanField(default=False, db_default=False)
        ),
        migrations.AddField(
            model_name="environment",
            name="change_reason",
            field=models.CharField(
                choices=[("none", "Not asked"), ("optional", "Optional"), ("required", "Required")],
                db_default="optional",
                default="optional",
                max_length=10,
            ),
        ),
        # The first revision of the write that made a change. Changes of a process of the release before have none.
        migrations.AddField(model_name="change", name="write", field=models.BigIntegerField(null=True)),
        migrations.RunPython(protect_production, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.CheckConstraint(
                condition=models.Q(("change_reason__in", REASONS)), name="environment_change_reason_known"
            ),
        ),
    ]
