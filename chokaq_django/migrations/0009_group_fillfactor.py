from django.db import migrations


class PostgresSQL(migrations.RunSQL):
    """SQL that runs on PostgreSQL and does nothing on other engines."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    """Failure groups are few rows that are counted up all the time: with room for the next version of each on its page
    an update writes to no index."""

    dependencies = [
        ("chokaq", "0008_bulk_counts"),
    ]

    operations = [
        PostgresSQL(
            "ALTER TABLE chokaq_failure_group SET (fillfactor = 50)",
            "ALTER TABLE chokaq_failure_group RESET (fillfactor)",
            hints={"model_name": "failuregroup"},
        ),
    ]
