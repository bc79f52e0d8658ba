"""Outcome counts in ten second buckets, written inside the transaction that moves the job, so that they only grow."""

from __future__ import annotations

from django.db import models

from .fields import KeyField, UTCDateTimeField

HISTOGRAM_BINS = 16
"""Bin ``i`` counts values below ``2 ** i`` milliseconds; the last bin takes everything longer."""


class BucketOutcome(models.IntegerChoices):
    """What a bucket row counts."""

    SUCCEEDED = 0
    RETRIED = 1
    DEAD = 2


class MetricBucket(models.Model):
    """Counts of one queue, type, outcome and reason in ten seconds, by one writer.

    Sharded by writer so that completions of one queue never wait for one row. ``reason`` is a FailureReason, or -1.
    ``series`` is a digest of the other naming columns: five names of up to 255 characters would not fit in a key on
    SQL Server, and a short key keeps the upsert cheap.
    """

    pk = models.CompositePrimaryKey("at", "series")
    at = UTCDateTimeField()
    series = KeyField(max_length=32)
    queue = KeyField(max_length=255)
    type = KeyField(max_length=255)
    outcome = models.IntegerField(choices=BucketOutcome.choices)
    reason = models.IntegerField(default=-1)
    shard = KeyField(max_length=100)
    count = models.BigIntegerField(default=0)
    total_ms = models.BigIntegerField(default=0)
    max_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "chokaq_metric_bucket"

    def __str__(self) -> str:
        return f"{self.queue} {self.type} {self.at}"


# Two histograms of plain counters: adding is then one statement on every engine, whoever writes.
for _name in ("run", "wait"):
    for _bin in range(HISTOGRAM_BINS):
        models.BigIntegerField(default=0).contribute_to_class(MetricBucket, f"{_name}_{_bin}")
