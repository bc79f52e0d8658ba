from django.db import migrations, models
from django.db.models import Value
from django.db.models.functions import Concat, Substr

import chokaq_django.models.fields


def unfold(apps, schema_editor):
    """On the way back: the totals go, and what was folded gets keys of which the way forward folds it once more."""
    groups = apps.get_model("chokaq", "FailureGroup").objects.using(schema_editor.connection.alias)
    groups.filter(series__gte="g").update(series=Concat(Value("0"), Substr("series", 2, 31)))


class Migration(migrations.Migration):
    """The totals fill themselves: what was folded before is folded once more, by the rows' new keys."""

    dependencies = [
        ("chokaq", "0006_worker_clock_offset"),
    ]

    operations = [
        migrations.CreateModel(
            name="FailureTotal",
            fields=[
                (
                    "fingerprint",
                    chokaq_django.models.fields.KeyField(max_length=32, primary_key=True, serialize=False),
                ),
                ("count", models.BigIntegerField(default=0)),
                ("total", models.BigIntegerField(default=0)),
                ("first_seen", chokaq_django.models.fields.UTCDateTimeField()),
                ("last_seen", chokaq_django.models.fields.UTCDateTimeField()),
            ],
            options={
                "verbose_name": "total of a failure group",
                "verbose_name_plural": "totals of failure groups",
                "db_table": "chokaq_failure_total",
                "indexes": [
                    models.Index(fields=["count", "fingerprint"], name="chokaq_total_count"),
                    models.Index(fields=["last_seen", "fingerprint"], name="chokaq_total_last_seen"),
                ],
            },
        ),
        # The new one first: workers go on, and look for fingerprints all the while.
        migrations.AddIndex(
            model_name="failuregroup",
            index=models.Index(fields=["fingerprint", "series"], name="chokaq_group_series"),
        ),
        migrations.RemoveIndex(
            model_name="failuregroup",
            name="chokaq_group_fingerprint",
        ),
        migrations.RunPython(migrations.RunPython.noop, unfold, hints={"model_name": "failuregroup"}),
    ]
