import chokaq_django.models.fields
from django.db import migrations


class Migration(migrations.Migration):
    """The new column may be left out: processes of the version before, which do not know it, go on purging."""

    dependencies = [
        ("chokaq", "0011_permissions"),
    ]

    operations = [
        migrations.AddField(
            model_name="jobtrash",
            name="operation_id",
            field=chokaq_django.models.fields.ULIDField(
                help_text="The bulk operation that purged or removed it.", max_length=26, null=True
            ),
        ),
        migrations.AlterField(
            model_name="bulkitem",
            name="note",
            field=chokaq_django.models.fields.TextField(
                help_text="Why it was refused or left alone; or JSON of what an edit replaced, or the operation that "
                "put it into the Trash.",
                null=True,
            ),
        ),
    ]
