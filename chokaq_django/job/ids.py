"""Job ids: ULIDs from one generator per process.

python-ulid's own default generator reads its clock outside the lock, which lets ids go backwards between threads and
when the clock steps, and it repeats ids in a forked child. This one does neither.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

from ulid import ULID, base32, constants

__all__ = ["ULIDSequence", "clean_id", "new_id"]

_PAIRS = tuple(a + b for a in base32.ENCODE for b in base32.ENCODE)
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_LOW_BITS = 20
_LOW_LIMIT = 1 << _LOW_BITS
_LOW_CHARS = _LOW_BITS // 5
_ID_LIMIT = 1 << 128


class ULIDSequence:
    """Strictly growing ULIDs, whatever the threads, the clock and ``fork`` do.

    ``clock`` returns milliseconds since the epoch, ``entropy(n)`` n random bytes. Within one millisecond, and while the
    clock is behind what it once said, an id is the one before plus one, as the ULID specification has it.
    """

    __slots__ = ("_clock", "_entropy", "_last_ms", "_lock", "_low", "_prefix")

    def __init__(
        self,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self.reset()

    def reset(self) -> None:
        """Forget the last id. A forked child must: it would otherwise go on with its parent's ids."""
        self._lock = threading.Lock()
        self._last_ms = -1
        self._prefix = ""
        self._low = 0

    def next(self) -> str:
        """The next id: 26 characters of Crockford's base 32, upper case."""
        with self._lock:
            now = self._clock()
            if now > self._last_ms:
                self._last_ms = now
                return self._start_at(now.to_bytes(constants.TIMESTAMP_LEN, "big") + self._entropy(10))
            # Same millisecond: the upper 108 bits stay, so only the last four characters are encoded again.
            low = self._low + 1
            if low == _LOW_LIMIT:
                last = int(ULID.from_str(self._prefix + "Z" * _LOW_CHARS)) + 1
                following = ULID.from_int(last % _ID_LIMIT)
                self._last_ms = following.milliseconds
                return self._start_at(following.bytes)
            self._low = low
            return f"{self._prefix}{_PAIRS[low >> 10]}{_PAIRS[low & 1023]}"

    def _start_at(self, binary: bytes) -> str:
        text = base32.encode(binary)
        self._prefix = text[:-_LOW_CHARS]
        self._low = int.from_bytes(binary[-3:], "big") % _LOW_LIMIT
        return text


_sequence = ULIDSequence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sequence.reset)


def new_id() -> str:
    """A new job id: a ULID of 26 characters, greater than every id this process made before."""
    return _sequence.next()


def clean_id(value: object) -> str | None:
    """A job id as it is stored; None for what cannot be one."""
    text = value.strip().upper() if isinstance(value, str) else ""
    return text if _ID.fullmatch(text) else None
