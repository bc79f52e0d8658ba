import chokaq_django.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chokaq', '0002_postgres_tuning'),
    ]

    operations = [
        migrations.CreateModel(
            name='PayloadVersion',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'revision', blank=True, editable=False, primary_key=True, serialize=False)),
                ('job_id', chokaq_django.models.fields.ULIDField(max_length=26)),
                ('revision', models.IntegerField(help_text="The job's revision while it had this payload.")),
                ('type', chokaq_django.models.fields.KeyField(max_length=255)),
                ('schema_version', models.IntegerField()),
                ('payload', chokaq_django.models.fields.TextField()),
                ('replaced_at', chokaq_django.models.fields.UTCDateTimeField()),
                ('replaced_by', chokaq_django.models.fields.CharField(max_length=100, null=True)),
            ],
            options={
                'verbose_name': 'payload version',
                'verbose_name_plural': 'payload versions',
                'db_table': 'chokaq_payload_version',
            },
        ),
        # With a default the column can come back where rows are.
        migrations.AlterField(
            model_name='jobtrash',
            name='original',
            field=chokaq_django.models.fields.TextField(default='{}'),
        ),
        migrations.RemoveField(
            model_name='jobtrash',
            name='original',
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='acknowledged_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='assignee',
            field=chokaq_django.models.fields.CharField(max_length=150, null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='cancel_requested_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='cancel_requested_by',
            field=chokaq_django.models.fields.CharField(max_length=100, null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='duration_ms',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='error_details',
            field=chokaq_django.models.fields.TextField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='error_type',
            field=chokaq_django.models.fields.CharField(max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='failed_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='failure_reason',
            field=models.IntegerField(choices=[(0, 'MAX_RETRIES_EXCEEDED'), (1, 'CANCELLED'), (2, 'ZOMBIE'), (3, 'CIRCUIT_BREAKER_OPEN'), (4, 'REJECTED'), (5, 'THROTTLED'), (6, 'FATAL_ERROR'), (7, 'TIMEOUT'), (8, 'TRANSIENT'), (9, 'HEARTBEAT_FAILURE'), (10, 'RETRY_LIFETIME_EXPIRED'), (11, 'EXPIRED'), (12, 'UNKNOWN_TYPE'), (13, 'POISON'), (14, 'PARENT_FAILED')], null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='fingerprint',
            field=chokaq_django.models.fields.KeyField(max_length=32, null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='finished_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='heartbeat_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='note',
            field=chokaq_django.models.fields.TextField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='progress',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='progress_message',
            field=chokaq_django.models.fields.TextField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='result',
            field=chokaq_django.models.fields.TextField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='status',
            field=models.IntegerField(choices=[(0, 'Pending'), (1, 'Fetched'), (2, 'Processing'), (3, 'Succeeded'), (4, 'Failed'), (5, 'Cancelled'), (6, 'Zombie'), (7, 'Awaiting'), (8, 'Expired')], null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='updated_at',
            field=chokaq_django.models.fields.UTCDateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='jobtrash',
            name='wait_ms',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name='jobtrash',
            name='expires_at',
            field=chokaq_django.models.fields.UTCDateTimeField(help_text='When it is deleted for good; empty: never.', null=True),
        ),
        migrations.AddIndex(
            model_name='jobtrash',
            index=models.Index(fields=['purged_at', 'id'], name='chokaq_trash_time'),
        ),
    ]
