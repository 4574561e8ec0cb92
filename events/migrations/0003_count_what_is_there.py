from collections import Counter
from datetime import UTC, datetime, timedelta

from django.db import migrations
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Substr

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER = timedelta(minutes=15)
_ROWS_AT_ONCE = 5000


def fill(apps, schema_editor):
    """Give the events of before their variant, and count them."""
    Event, EventCount = apps.get_model("events", "Event"), apps.get_model("events", "EventCount")
    naming = Event.objects.filter(properties__has_key="variant")
    naming.update(variant=Substr(KeyTextTransform("variant", "properties"), 1, 101))
    counts = Counter(
        (environment_id, name, (timestamp - _EPOCH) // _QUARTER)
        for environment_id, name, timestamp in Event.objects.order_by()
        .values_list("environment_id", "name", "timestamp")
        .iterator(_ROWS_AT_ONCE)
    )
    EventCount.objects.bulk_create(
        (
            EventCount(environment_id=environment_id, name=name, quarter=quarter, stripe=0, count=count)
            for (environment_id, name, quarter), count in counts.items()
        ),
        batch_size=_ROWS_AT_ONCE,
    )


def empty(apps, schema_editor):
    apps.get_model("events", "EventCount").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0002_counts_and_variants"),
    ]

    operations = [migrations.RunPython(fill, empty)]
