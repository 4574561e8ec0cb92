from django.db import migrations, models

_SUMS = ("variantsums", "dailysums")
_VALUES = ("uservalue", "dayvalue")


class Migration(migrations.Migration):
    """Columns for users with a numerator or a denominator, and for events without the number that a metric adds.

    Results are computed again on their first reading, because their watermarks are of the version before.
    """

    dependencies = [("experiments", "0002_programme")]

    operations = [
        *(migrations.AddField(name, "active", models.IntegerField(db_default=0, default=0)) for name in _SUMS),
        *(
            migrations.AddField(name, "without_number", models.BigIntegerField(db_default=0, default=0))
            for name in _SUMS
        ),
        *(migrations.AddField(name, "without_number", models.IntegerField(null=True)) for name in _VALUES),
    ]
