from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("config", "0002_change_of_key")]

    operations = [
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("request", models.CharField(max_length=64)),
                ("at", models.DateTimeField(db_index=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("headers", models.JSONField(null=True)),
                ("body", models.BinaryField(null=True)),
            ],
        ),
    ]
