"""Rows with idempotency keys, for engines that insert a call's rows by more than one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from .contract import Enqueued, NewJob, StorageError

T = TypeVar("T")


def split(rows: Sequence[NewJob]) -> tuple[list[NewJob], list[NewJob]]:
    """Rows without a key, and the first row of each key in the order of the keys: two calls that hold keys the other
    one waits for would deadlock."""
    first: dict[str, NewJob] = {}
    for row in rows:
        if row.idempotency_key is not None:
            first.setdefault(row.idempotency_key, row)
    return [row for row in rows if row.idempotency_key is None], [first[key] for key in sorted(first)]


def answers(rows: Sequence[NewJob], holders: Mapping[str, str]) -> list[Enqueued]:
    """What to say of each row; ``holders``: key -> id of the job that holds it."""
    found = [row.id if row.idempotency_key is None else holders[row.idempotency_key] for row in rows]
    return [Enqueued(holder, created=holder == row.id) for row, holder in zip(rows, found, strict=True)]


def knowing_tries(work: Callable[[bool], T]) -> Callable[[], T]:
    """``work(tried)`` as a unit that may be run again; ``tried``: an earlier try may have committed."""
    tries = 0

    def unit() -> T:
        nonlocal tries
        tries += 1
        return work(tries > 1)

    return unit


def too_fast(key: str | None) -> StorageError:
    return StorageError(f"the idempotency key {key!r} is taken and freed too fast to say by whom")
