import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models
from django.db.models import Value

import config.database.commit_order
import config.documents
import experiments.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("config", "0004_epoch"),
        ("experiments", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Fold",
            fields=[
                (
                    "experiment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="fold",
                        serialize=False,
                        to="experiments.experiment",
                    ),
                ),
                ("mark", models.TextField(blank=True, default="")),
                ("stopped_at", models.DateTimeField(default=None, null=True)),
                ("caps", models.JSONField(decoder=config.documents.StoredJSONDecoder, default=dict)),
                ("kept", models.JSONField(decoder=config.documents.StoredJSONDecoder, default=None, null=True)),
                ("folded_at", models.DateTimeField(default=None, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Metric",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(max_length=100, unique=True)),
                ("description", models.CharField(blank=True, default="", max_length=2000)),
                (
                    "type",
                    models.CharField(
                        choices=[
                            ("conversion", "Conversion: did it happen?"),
                            ("count", "Count: how often?"),
                            ("revenue", "Revenue: how much money?"),
                            ("sum", "Sum of a property"),
                            ("mean", "Mean of a property"),
                            ("ratio", "Ratio of two quantities"),
                            ("retention", "Retention: did it happen on certain days?"),
                        ],
                        max_length=10,
                    ),
                ),
                ("event", models.CharField(max_length=200)),
                ("property", models.CharField(blank=True, default="", max_length=200)),
                ("currency", models.CharField(blank=True, default="", max_length=3)),
                (
                    "denominator",
                    models.JSONField(blank=True, decoder=config.documents.StoredJSONDecoder, default=None, null=True),
                ),
                ("window_hours", models.PositiveIntegerField(blank=True, null=True)),
                ("delay_hours", models.PositiveIntegerField(default=0)),
                ("from_day", models.PositiveIntegerField(blank=True, null=True)),
                ("to_day", models.PositiveIntegerField(blank=True, null=True)),
                ("cap_value", models.FloatField(blank=True, null=True)),
                ("cap_percentile", models.FloatField(blank=True, null=True)),
                (
                    "direction",
                    models.CharField(
                        choices=[("increase", "More is better"), ("decrease", "Less is better")],
                        default="increase",
                        max_length=10,
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("goal", "Goal: what the experiment should improve"),
                            ("guardrail", "Guardrail: what must not get worse"),
                        ],
                        default="goal",
                        max_length=10,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("revision", models.BigIntegerField(editable=False)),
            ],
            options={
                "ordering": ("key",),
            },
        ),
        migrations.CreateModel(
            name="UserTotal",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "experiment_id",
                        "user_id",
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
                        related_name="totals",
                        to="experiments.experiment",
                    ),
                ),
                ("user_id", models.CharField(max_length=200)),
                ("variant", models.CharField(max_length=100)),
                ("exposed_at", models.DateTimeField()),
                ("is_in_several_variants", models.BooleanField()),
                ("figures", experiments.models.fields.FiguresField()),
            ],
        ),
        migrations.CreateModel(
            name="VariantSums",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "experiment_id",
                        "metric",
                        "variant",
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
                ("day", models.DateField()),
                ("users", models.IntegerField()),
                ("several", models.IntegerField(default=0)),
                ("positive", models.IntegerField(default=0)),
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
        migrations.AddField(
            model_name="experiment",
            name="definitions",
            field=models.JSONField(
                blank=True, decoder=config.documents.StoredJSONDecoder, default=list, editable=False
            ),
        ),
        migrations.AddField(
            model_name="experiment",
            name="frozen_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="tuning_size",
            field=models.PositiveIntegerField(default=5000),
        ),
        migrations.AddField(
            model_name="exposure",
            name="arrival",
            field=config.database.commit_order.ArrivalField(db_default=Value(0)),
        ),
        # As in the events' own: a constant for what is there, and then the number of the transaction.
        migrations.AlterField(
            model_name="exposure",
            name="arrival",
            field=config.database.commit_order.ArrivalField(),
        ),
        migrations.AddField(
            model_name="exposure",
            name="attributes",
            field=models.JSONField(decoder=config.documents.StoredJSONDecoder, default=None, null=True),
        ),
        migrations.AddIndex(
            model_name="exposure",
            index=models.Index(fields=["experiment", "arrival"], name="exposure_by_arrival"),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(("key__regex", "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\\Z")), name="metric_key_format"
            ),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("type__in", ["conversion", "count", "revenue", "sum", "mean", "ratio", "retention"])
                ),
                name="metric_type_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(("direction__in", ["increase", "decrease"])), name="metric_direction_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["goal", "guardrail"])), name="metric_role_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(("cap_value", None), ("cap_percentile", None), _connector="OR"),
                name="metric_one_cap",
            ),
        ),
    ]
