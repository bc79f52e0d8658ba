"""Outcome counts in ten second buckets, written inside the transaction that moves the job, so that they only grow."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import KeyField, UTCDateTimeField

HISTOGRAM_LIMITS = (
    1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
)  # fmt: skip
"""Milliseconds: bin ``i`` counts values below limit ``i`` that are in no lower bin; the last one takes
everything longer. From a millisecond to three hours: a wait may be as long."""
HISTOGRAM_BINS = len(HISTOGRAM_LIMITS) + 1

TICK, MINUTE, FIVE_MINUTES, HOUR = 10, 60, 300, 3_600
"""The spans of roll-ups, in seconds. What leaves the buckets is added to each: a chart of a quarter of an hour reads
the first, one of an hour the second, one of a day the third, one of a week the last, and none reads much."""
BUCKETS_KEPT = 60
"""Seconds for which buckets stay at least: whoever writes into them has committed by then. They are of single writers,
as many as there are workers; roll-ups are of all."""
TICKS_KEPT = 1_200
"""Seconds for which roll-ups of ten seconds stay."""


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
        default_permissions = ()
        db_table = "chokaq_metric_bucket"

    def __str__(self) -> str:
        return f"{self.queue} {self.type} {self.at}"


class MetricRollup(models.Model):
    """Buckets of single writers that were added up to those of all, as long or longer. ``span``: their length in
    seconds.

    Each outcome is in the buckets, or in one row of each span: never in both, never in none.
    """

    pk = models.CompositePrimaryKey("span", "at", "series")
    span = models.IntegerField()
    at = UTCDateTimeField()
    series = KeyField(max_length=32, help_text=_("Digest of queue, type, outcome and reason."))
    queue = KeyField(max_length=255)
    type = KeyField(max_length=255)
    outcome = models.IntegerField(choices=BucketOutcome.choices)
    reason = models.IntegerField(default=-1)
    count = models.BigIntegerField(default=0)
    total_ms = models.BigIntegerField(default=0)
    max_ms = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        db_table = "chokaq_metric_rollup"

    def __str__(self) -> str:
        return f"{self.queue} {self.type} {self.at} for {self.span} s"


class Counter(models.Model):
    """Outcomes of one queue and type that have left the ten second buckets: with what these hold, the total since the
    tables were made. It only grows."""

    series = KeyField(max_length=32, primary_key=True)
    queue = KeyField(max_length=255)
    type = KeyField(max_length=255)
    outcome = models.IntegerField(choices=BucketOutcome.choices)
    reason = models.IntegerField(default=-1)
    count = models.BigIntegerField(default=0)
    total_ms = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        db_table = "chokaq_counter"
        indexes = [models.Index(fields=["queue"], name="chokaq_counter_queue")]

    def __str__(self) -> str:
        return f"{self.queue} {self.type}"


# Two histograms of plain counters: adding is then one statement on every engine, whoever writes.
for _model in (MetricBucket, MetricRollup):
    for _name in ("run", "wait"):
        for _bin in range(HISTOGRAM_BINS):
            models.BigIntegerField(default=0).contribute_to_class(_model, f"{_name}_{_bin}")
