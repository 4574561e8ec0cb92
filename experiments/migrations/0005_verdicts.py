from django.db import migrations, models

import config.documents


class Migration(migrations.Migration):
    dependencies = [("experiments", "0004_counts_until")]

    operations = [
        migrations.AddField(
            "resultstate",
            "verdicts",
            models.JSONField(decoder=config.documents.StoredJSONDecoder, default=None, null=True),
        )
    ]
