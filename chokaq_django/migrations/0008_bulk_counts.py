from django.db import migrations

import chokaq_django.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("chokaq", "0007_failure_totals"),
    ]

    operations = [
        migrations.AddField(
            model_name="bulkoperation",
            name="counts",
            field=chokaq_django.models.fields.TextField(
                help_text="JSON: the set by queue and type, counted while it was frozen.", null=True
            ),
        ),
    ]
