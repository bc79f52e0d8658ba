"""Makes worker processes, replaces dead ones, hands out signals, answers probes. Holds no database connection and no
thread."""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from ..conf import Options
from ..observability.events import Event, log_event
from .child import RECYCLE, STOP_SIGNALS, STOPPED, Child
from .connections import close_before_fork
from .health_server import HealthServer, vitals
from .plan import WorkerPlan

logger = logging.getLogger("chokaq.worker.supervisor")

YOUNG = 5.0
"""Seconds: a child that dies younger than this counts towards giving up."""
EARLY_DEATHS = 5
LONGEST_PAUSE = 10.0


def flush_output() -> None:
    """Write what ``print`` still holds; whoever reads it may be gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


@dataclass(slots=True)
class Slot:
    """One place for a child."""

    pid: int | None = None
    started: float = 0.0
    """0 until it has had one."""
    early_deaths: int = 0
    restart_at: float | None = 0.0
    """When to make the next child; None: not again."""


class Supervisor:
    """Runs ``processes`` children until they end or it is told to stop."""

    def __init__(self, options: Options, plan: WorkerPlan, processes: int, health: HealthServer | None = None) -> None:
        self._options, self._plan, self._health = options, plan, health
        self._slots = [Slot() for _ in range(processes)]
        self._signals = 0
        self._told = 0
        self._failed = False
        # Children hold the read end; it closes with us, however we end.
        self._life_read, self._life_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self) -> int:
        """Until every child has ended for good; the exit code."""
        close_before_fork()
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()  # children share our memory pages; the collector would write on them
        while True:
            self._pass_on_signals()
            self._reap()
            pause = self._make_children()
            if all(slot.pid is None and slot.restart_at is None for slot in self._slots):
                return 1 if self._failed else 0
            if not self._wake_pending():
                self._wait(pause)
            self._clear_wake()

    def _wait(self, pause: float | None) -> None:
        """Until a signal or a probe comes, for ``pause`` seconds at most."""
        if self._health is None:
            select.select([self._wake_read], [], [], pause)
            return
        pauses = [seconds for seconds in (pause, self._health.pause()) if seconds is not None]
        watched: list[Any] = [self._wake_read, *self._health.sockets()]
        select.select(watched, [], [], min(pauses, default=None))
        children = (
            (place, slot.pid is not None, slot.started)
            for place, slot in enumerate(self._slots)
            if slot.pid is not None or slot.restart_at is not None
        )
        self._health.serve(vitals(self._health.board, children, bool(self._signals)))

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _wake_pending(self) -> bool:
        return self._told < self._signals

    def _clear_wake(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass

    def _pass_on_signals(self) -> None:
        """SIGTERM to each child for the first signal we got; SIGQUIT, which means at once, for the second."""
        for number in (signal.SIGTERM, signal.SIGQUIT)[self._told : self._signals]:
            self._told += 1
            for slot in self._slots:
                slot.restart_at = None
                if slot.pid is not None:
                    os.kill(slot.pid, number)
        self._told = self._signals

    def _reap(self) -> None:
        for slot in self._slots:
            if slot.pid is None:
                continue
            pid, status = os.waitpid(slot.pid, os.WNOHANG)
            if pid:
                slot.pid = None
                self._ended(slot, pid, os.waitstatus_to_exitcode(status))

    def _ended(self, slot: Slot, pid: int, code: int) -> None:
        if code == STOPPED or self._signals:
            slot.restart_at = None
            self._failed = self._failed or (code not in (STOPPED, RECYCLE))
            return
        if code == RECYCLE:
            log_event(logger, logging.INFO, Event.WORKER_RECYCLED, "Worker process %d is replaced by a new one", pid)
            slot.early_deaths, slot.restart_at = 0, time.monotonic()
            return
        young = time.monotonic() - slot.started < YOUNG
        slot.early_deaths = slot.early_deaths + 1 if young else 0
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        if slot.early_deaths >= EARLY_DEATHS:
            log_event(
                logger, logging.ERROR, Event.WORKER_GAVE_UP,
                "Worker process %d %s, the %dth time within %.0f s of its start: giving up", pid, how,
                slot.early_deaths, YOUNG,
            )  # fmt: skip
            self._failed, slot.restart_at = True, None
            return
        pause = min(LONGEST_PAUSE, 0.5 * 2**slot.early_deaths) if young else 0.0
        log_event(
            logger, logging.ERROR, Event.WORKER_CHILD_DIED, "Worker process %d %s; a new one starts in %.1f s",
            pid, how, pause,
        )  # fmt: skip
        slot.restart_at = time.monotonic() + pause

    def _make_children(self) -> float | None:
        """Start what is due; seconds until the next start, None when none is planned."""
        nearest: float | None = None
        for place, slot in enumerate(self._slots):
            if slot.pid is not None or slot.restart_at is None:
                continue
            wait = slot.restart_at - time.monotonic()
            if wait > 0:
                nearest = wait if nearest is None else min(nearest, wait)
                continue
            is_first, slot.started = not slot.started, time.monotonic()
            slot.pid = self._fork(place, is_first)
        return nearest

    def _plan_of(self, is_first: bool) -> WorkerPlan:
        """The plan of a child; one that takes another's place has settings that may no longer be the newest."""
        return self._plan if is_first else replace(self._plan, renews=False)

    def _fork(self, place: int, is_first: bool) -> int:
        if self._health is not None:
            self._health.board.clear(place)
        flush_output()  # or both processes would print what waits here
        # A signal that arrives between the fork and the child's own handlers must wait, not get lost in ours.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for descriptor in (self._life_write, self._wake_read, self._wake_write):
                os.close(descriptor)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            record = None
            if self._health is not None:
                self._health.close()
                record = (self._health.board, place)
            code = Child(self._options, self._plan_of(is_first), self._life_read, record).run()
        except BaseException:
            logger.exception("The worker process could not go on")
        finally:
            logging.shutdown()
            flush_output()
            # Threads of user code that did not stop must not keep the process: everything of ours is written.
            os._exit(code)
