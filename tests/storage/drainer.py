"""A process that claims and settles through a private storage until nothing is due (``-m tests.storage.drainer 10``),
in batches of ten.

It says ``ready``, starts when its standard input has a line, and prints the ids of what it ran, in order, as JSON.
"""

from __future__ import annotations

import json
import sys

import django

django.setup()

from chokaq_django.job.ids import new_id  # noqa: E402 - models need Django set up
from chokaq_django.storage import ClaimRequest, open_storage  # noqa: E402

from .support import outcome  # noqa: E402


def drain(batch: int) -> list[str]:
    storage, worker, done = open_storage(), new_id(), []
    while jobs := storage.claim(ClaimRequest(worker, storage.pending_queues(), batch)).jobs:
        applied = storage.settle(worker, [outcome(job) for job in jobs])
        assert applied == {job.id for job in jobs}
        done += [job.id for job in jobs]
    storage.close()
    return done


print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(drain(int(sys.argv[1]))), flush=True)
