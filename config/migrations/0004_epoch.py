from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("config", "0003_idempotency")]

    operations = [
        migrations.CreateModel(
            name="Epoch",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("number", models.BigIntegerField()),
            ],
        ),
    ]
