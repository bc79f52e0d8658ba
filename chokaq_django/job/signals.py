"""Signals of a job's life, sent in the process where it happens.

``job_enqueued(sender, job_id, type, queue)`` after commit, in the process that enqueued; the others in the worker:
``job_started``, ``job_succeeded``, ``job_retrying`` and ``job_buried`` carry ``job_id``, ``type``, ``queue`` and
``attempt``; ``job_retrying`` also ``delay`` (seconds) and ``error``, ``job_buried`` also ``reason`` and ``error``.
"""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["job_buried", "job_enqueued", "job_retrying", "job_started", "job_succeeded"]

job_enqueued = Signal()
job_started = Signal()
job_succeeded = Signal()
job_retrying = Signal()
job_buried = Signal()
