"""The main thread of one worker process: waits for signals, for its supervisor's end, and for the worker's own wish.

SIGTERM means stop gracefully, however often it comes: a service manager may send it to the whole process group while
the supervisor passes it on as well. "At once" is the supervisor's to say, by SIGQUIT; without one, a second signal.
"""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

from ..conf import Options
from .health_server import Board, Pulse
from .plan import WorkerPlan
from .process import WorkerProcess

STOPPED, RECYCLE = 0, 75
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class Child:
    """Runs a :class:`WorkerProcess` until SIGTERM, SIGINT, the end of the supervisor, or its own stop."""

    def __init__(
        self, options: Options, plan: WorkerPlan, supervisor: int | None, record: tuple[Board, int] | None = None
    ) -> None:
        """``supervisor``: the read end of a pipe that closes when the supervisor dies. ``record``: where to say how
        this process is.

        It forks with the signals of :data:`STOP_SIGNALS` blocked; from here on they are heard.
        """
        self._signals = 0
        self._at_once = False
        self._supervisor = supervisor
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._listen()
        self._process = WorkerProcess(options, plan, self._poke)
        self._pulse = Pulse(*record, self._process.liveness) if record is not None else None

    def _listen(self) -> None:
        # The handlers below run when the main thread comes to run Python again. Only the interpreter's own byte wakes
        # it where a signal has come to another thread, or right before the main thread began to wait.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGQUIT, self._on_signal)
        # With a supervisor, Ctrl-C reaches it too, and it tells us.
        signal.signal(signal.SIGINT, signal.SIG_IGN if self._supervisor is not None else self._on_signal)
        # Before any thread or process is made here: they would inherit the blocked signals.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _poke(self) -> None:
        try:
            os.write(self._write, b".")
        except BlockingIOError:
            pass  # full of earlier pokes: the main thread will wake

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Only a flag and a byte: a handler that took a lock could wait for the very code it interrupts.
        self._signals += 1
        if number == signal.SIGQUIT or (self._supervisor is None and self._signals > 1):
            self._at_once = True
        self._poke()

    def run(self) -> int:
        """Until the end; the exit code."""
        self._process.start()
        if self._pulse is not None:
            self._pulse.start()
        watched = [self._read] + ([self._supervisor] if self._supervisor is not None else [])
        while not self._signals and not self._process.stop_requested:
            ready, _, _ = select.select(watched, [], [])
            if self._supervisor in ready:
                break  # the supervisor is gone: nobody would replace us or tell us to stop
            try:
                os.read(self._read, 4096)
            except BlockingIOError:
                pass
        complete = self._process.shutdown(hurry=lambda: self._at_once)
        if self._process.recycle and not self._signals:
            return RECYCLE
        return STOPPED if complete or not self._at_once else 1
