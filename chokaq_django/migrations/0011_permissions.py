from django.apps import apps as installed
from django.db import migrations

HAS_AUTH = installed.is_installed("django.contrib.auth")


class OfAuth(migrations.RunPython):
    """Runs where Django's permissions live: routers are asked about these, and not about the tables of jobs, which may
    be in another database."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if HAS_AUTH:
            super().database_forwards("auth", schema_editor, from_state, to_state)


def delete_unused(apps, schema_editor):
    """Django makes permissions after a migration, and never takes one away."""
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for model in apps.get_app_config("chokaq").get_models():
        name, kept = model._meta.model_name, model._meta.default_permissions
        unused = [f"{verb}_{name}" for verb in ("add", "change", "delete", "view") if verb not in kept]
        permissions.filter(content_type__app_label="chokaq", content_type__model=name, codename__in=unused).delete()


class Migration(migrations.Migration):
    """Permissions that no page asks for are not made any more, and those that were made are gone. On the way back
    Django makes them anew, given to nobody."""

    dependencies = [
        ("chokaq", "0010_left_alone"),
        *([("contenttypes", "__first__"), ("auth", "__first__")] if HAS_AUTH else []),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="auditentry",
            options={
                "default_permissions": ("view",),
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
            },
        ),
        migrations.AlterModelOptions(
            name="bulkitem",
            options={
                "default_permissions": (),
                "verbose_name": "job of a bulk operation",
                "verbose_name_plural": "jobs of bulk operations",
            },
        ),
        migrations.AlterModelOptions(
            name="bulkoperation",
            options={
                "default_permissions": (),
                "verbose_name": "bulk operation",
                "verbose_name_plural": "bulk operations",
            },
        ),
        migrations.AlterModelOptions(
            name="circuit",
            options={
                "default_permissions": ("view",),
                "ordering": ["type"],
                "verbose_name": "circuit",
                "verbose_name_plural": "circuits",
            },
        ),
        migrations.AlterModelOptions(
            name="counter",
            options={"default_permissions": ()},
        ),
        migrations.AlterModelOptions(
            name="failuregroup",
            options={
                "default_permissions": (),
                "verbose_name": "failure group",
                "verbose_name_plural": "failure groups",
            },
        ),
        migrations.AlterModelOptions(
            name="failuretotal",
            options={
                "default_permissions": (),
                "verbose_name": "total of a failure group",
                "verbose_name_plural": "totals of failure groups",
            },
        ),
        migrations.AlterModelOptions(
            name="failuretriage",
            options={
                "default_permissions": (),
                "verbose_name": "triage of a failure group",
                "verbose_name_plural": "triage of failure groups",
            },
        ),
        migrations.AlterModelOptions(
            name="jobarchive",
            options={
                "default_permissions": ("view",),
                "verbose_name": "archived job",
                "verbose_name_plural": "archived jobs",
            },
        ),
        migrations.AlterModelOptions(
            name="jobdlq",
            options={"default_permissions": ("view",), "verbose_name": "dead job", "verbose_name_plural": "dead jobs"},
        ),
        migrations.AlterModelOptions(
            name="jobhot",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("view_deck", "Can see the operator deck"),
                    ("operate", "Can operate queues, workers and circuits"),
                    ("edit_payload", "Can edit job payloads"),
                    ("resurrect", "Can resurrect dead jobs"),
                    ("cancel", "Can cancel jobs"),
                    ("purge", "Can purge jobs"),
                    ("view_payload", "Can see payloads, results and error texts"),
                ],
                "verbose_name": "active job",
                "verbose_name_plural": "active jobs",
            },
        ),
        migrations.AlterModelOptions(
            name="jobtrash",
            options={
                "default_permissions": ("view",),
                "verbose_name": "purged job",
                "verbose_name_plural": "purged jobs",
            },
        ),
        migrations.AlterModelOptions(
            name="leaderlease",
            options={"default_permissions": ()},
        ),
        migrations.AlterModelOptions(
            name="metricbucket",
            options={"default_permissions": ()},
        ),
        migrations.AlterModelOptions(
            name="metricrollup",
            options={"default_permissions": ()},
        ),
        migrations.AlterModelOptions(
            name="payloadversion",
            options={
                "default_permissions": (),
                "verbose_name": "payload version",
                "verbose_name_plural": "payload versions",
            },
        ),
        migrations.AlterModelOptions(
            name="queue",
            options={
                "default_permissions": ("view",),
                "ordering": ["name"],
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
            },
        ),
        migrations.AlterModelOptions(
            name="retentionmark",
            options={"default_permissions": ()},
        ),
        migrations.AlterModelOptions(
            name="setting",
            options={
                "default_permissions": (),
                "ordering": ["name"],
                "verbose_name": "setting",
                "verbose_name_plural": "settings",
            },
        ),
        migrations.AlterModelOptions(
            name="worker",
            options={
                "default_permissions": ("view",),
                "ordering": ["host", "pid"],
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
            },
        ),
        OfAuth(delete_unused, migrations.RunPython.noop, hints={"model_name": "permission"}),
    ]
