import django.db.models.deletion
from django.db import migrations, models

import experiments.models.fields

COUNTS = ("users", "several", "positive", "measured", "events", "foreign")
EXACT = ("y", "yy", "d", "dd", "yd", "x", "xx", "xy")
WHOSE = 'experiment_id, metric, variant, "day"'


def copy(apps, schema_editor):
    """What is there was exposed in the first phase. Of frozen experiments it could not be computed once more."""
    names = ", ".join(f'"{name}"' for name in (*COUNTS, *EXACT))
    schema_editor.execute(
        f"INSERT INTO experiments_phasesums ({WHOSE}, phase, {names}) "  # noqa: S608 (no data)
        f"SELECT {WHOSE}, 1, {names} FROM experiments_variantsums"
    )


def copy_back(apps, schema_editor):
    """Without phases, a day has the users of all of them."""
    total = "SUM" if schema_editor.connection.vendor == "postgresql" else "exact_sum"
    summed = [f'SUM("{name}")' for name in COUNTS] + [f'{total}("{name}")' for name in EXACT]
    names = ", ".join(f'"{name}"' for name in (*COUNTS, *EXACT))
    schema_editor.execute(
        f"INSERT INTO experiments_variantsums ({WHOSE}, {names}) "  # noqa: S608 (no data)
        f"SELECT {WHOSE}, {', '.join(summed)} FROM experiments_phasesums GROUP BY {WHOSE}"
    )


class Migration(migrations.Migration):
    """Sums get a key of one more column, which no migration can alter: they move to another table of that name."""

    dependencies = [("experiments", "0008_first_phases")]

    operations = [
        migrations.AddField(
            model_name="usertotal",
            name="phase",
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.CreateModel(
            name="PhaseSums",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "experiment_id",
                        "metric",
                        "variant",
                        "phase",
                        "day",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "experiment",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sums",
                        to="experiments.experiment",
                    ),
                ),
                ("metric", models.SmallIntegerField()),
                ("variant", models.CharField(max_length=100)),
                ("phase", models.PositiveSmallIntegerField(db_default=1, default=1)),
                ("day", models.DateField()),
                ("users", models.IntegerField()),
                ("several", models.IntegerField(default=0)),
                ("positive", models.IntegerField(default=0)),
                ("measured", models.IntegerField(default=0)),
                ("y", experiments.models.fields.ExactField(default=0)),
                ("yy", experiments.models.fields.ExactField(default=0)),
                ("d", experiments.models.fields.ExactField(default=0)),
                ("dd", experiments.models.fields.ExactField(default=0)),
                ("yd", experiments.models.fields.ExactField(default=0)),
                ("x", experiments.models.fields.ExactField(default=0)),
                ("xx", experiments.models.fields.ExactField(default=0)),
                ("xy", experiments.models.fields.ExactField(default=0)),
                ("events", models.BigIntegerField(default=0)),
                ("foreign", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.RunPython(copy, copy_back),
        migrations.DeleteModel(name="VariantSums"),
        migrations.RenameModel(old_name="PhaseSums", new_name="VariantSums"),
    ]
