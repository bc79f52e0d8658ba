"""``runworker --health-port``: probes of a worker, answered by its supervisor for all its processes.

One port for the command, whatever ``--processes`` says: an orchestrator probes a container, not a process in it. The
supervisor must not have threads (it forks), nor ask the database; so each worker process tells how it is in a few bytes
of shared memory, once a second, and the supervisor answers from there between two looks at its children.

*Live*: every process turns, or is just being started. A process that is stopped, hangs, or has a loop that does not
come back is not live, and only a restart helps. A database that does not answer leaves it live: the loops go on trying.

*Ready*: every process is registered in the database, wrote there lately, and takes jobs. It ends with the first signal.
"""

from __future__ import annotations

import json
import logging
import mmap
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Board", "HealthServer", "Pulse", "Vitals"]

logger = logging.getLogger("chokaq.worker.health")

BEAT = 1.0
FRESH = 15.0
"""Seconds without a sign after which a process counts as hanging."""
START = 60.0
"""Seconds that a new process has for its first sign."""
PATIENCE = 5.0
"""Seconds that a client has for its request."""
MOST_CLIENTS = 32
MOST_BYTES = 4_096
_RECORD = struct.Struct("=dd")


class Patient(Protocol):
    """What a worker process tells of itself."""

    def hanging(self) -> str:
        """Name of a loop that does not turn any more; empty when all do."""

    def is_ready(self) -> bool:
        """Whether it is registered, reaches the database and takes jobs."""


# -- between a child and its supervisor --------------------------------------------------------------------------------


class Board:
    """One record for each place of a child, in memory that parent and children share: when it last showed that it
    turns, and when it was last ready. The monotonic clock is the same in all processes of a machine."""

    def __init__(self, places: int) -> None:
        self._memory = mmap.mmap(-1, max(1, places) * _RECORD.size)

    def write(self, place: int, alive_at: float, ready_at: float) -> None:
        _RECORD.pack_into(self._memory, place * _RECORD.size, alive_at, ready_at)

    def read(self, place: int) -> tuple[float, float]:
        alive_at, ready_at = _RECORD.unpack_from(self._memory, place * _RECORD.size)
        return alive_at, ready_at

    def clear(self, place: int) -> None:
        """A new child takes this place."""
        self.write(place, 0.0, 0.0)


class Pulse:
    """Writes a worker process's record, from a thread of its own: what keeps the interpreter busy shows as well."""

    def __init__(self, board: Board, place: int, patient: Patient) -> None:
        self._board, self._place, self._patient = board, place, patient
        self._alive_at = self._ready_at = 0.0
        self._said = ""

    def start(self) -> None:
        threading.Thread(target=self._run, name="chokaq-pulse", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.beat()
            time.sleep(BEAT)

    def beat(self) -> None:
        """Write the record once."""
        now = time.monotonic()
        hanging = self._patient.hanging()
        if not hanging:
            self._alive_at = now
        elif hanging != self._said:
            logger.error("The %s loop of this process does not turn any more", hanging)
        self._said = hanging
        self._ready_at = now if self._patient.is_ready() else 0.0
        self._board.write(self._place, self._alive_at, self._ready_at)


@dataclass(frozen=True, slots=True)
class Vitals:
    """How the children are. ``processes``: that should be there."""

    processes: int
    live: int
    ready: int
    stopping: bool

    @property
    def is_live(self) -> bool:
        return self.live == self.processes

    @property
    def is_ready(self) -> bool:
        return not self.stopping and self.processes > 0 and self.ready == self.processes

    def document(self) -> dict[str, Any]:
        return {
            "live": self.is_live, "ready": self.is_ready, "stopping": self.stopping,
            "processes": {"wanted": self.processes, "live": self.live, "ready": self.ready},
        }  # fmt: skip


def vitals(board: Board, children: Iterable[tuple[int, bool, float]], stopping: bool) -> Vitals:
    """From the board. ``children``: place, whether a process is there now, when it was last started."""
    now = time.monotonic()
    wanted = live = ready = 0
    for place, running, started in children:
        wanted += 1
        alive_at, ready_at = board.read(place)
        # One that died is being replaced: that is the supervisor's work, and no reason to kill it.
        live += not running or now - alive_at <= FRESH or (not alive_at and now - started <= START)
        ready += running and now - ready_at <= FRESH
    return Vitals(wanted, live, ready, stopping)


# -- for clients -------------------------------------------------------------------------------------------------------


class _Client:
    __slots__ = ("data", "ends", "socket")

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.data, self.ends = connection, b"", time.monotonic() + PATIENCE


class HealthServer:
    """A listening socket that is served from somebody else's ``select`` loop and never makes that wait.

    Raises ``OSError`` when the address cannot be had.
    """

    def __init__(self, host: str, port: int, places: int) -> None:
        self.board = Board(places)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CLIENTS)
        self._listener.setblocking(False)
        self._clients: dict[int, _Client] = {}

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def sockets(self) -> Sequence[socket.socket]:
        """What to select on for reading."""
        return [self._listener, *(client.socket for client in self._clients.values())]

    def pause(self) -> float | None:
        """Seconds after which :meth:`serve` wants to be called in any case."""
        return 1.0 if self._clients else None

    def rest(self, seconds: float) -> None:
        """A sleep in which probes are answered: nothing is wrong, and nothing is ready."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            select.select(self.sockets(), [], [], min(left, self.pause() or left))
            self.serve(Vitals(0, 0, 0, False))

    def serve(self, found: Vitals) -> None:
        """Whatever can be done without waiting."""
        self._accept()
        now = time.monotonic()
        for client in list(self._clients.values()):
            try:
                if self._read(client):
                    client.socket.send(_response(client.data, found))
                elif now < client.ends:
                    continue
            except OSError:
                pass  # the client is gone
            self._drop(client)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if len(self._clients) >= MOST_CLIENTS:
                self._drop(min(self._clients.values(), key=lambda client: client.ends))
            connection.setblocking(False)
            self._clients[connection.fileno()] = _Client(connection)

    def _read(self, client: _Client) -> bool:
        """Whether the request is there."""
        try:
            data = client.socket.recv(MOST_BYTES)
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError
        client.data += data
        return b"\r\n\r\n" in client.data or b"\n\n" in client.data or len(client.data) >= MOST_BYTES

    def _drop(self, client: _Client) -> None:
        self._clients = {number: other for number, other in self._clients.items() if other is not client}
        client.socket.close()

    def close(self) -> None:
        """In a child, which must not hold the port, and at the end."""
        for client in list(self._clients.values()):
            self._drop(client)
        self._listener.close()


def _response(request: bytes, found: Vitals) -> bytes:
    """The answer to a request: JSON, and then the connection ends."""
    method, _, rest = request.partition(b"\n")[0].strip().partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].rstrip(b"/")
    good = {b"/live": found.is_live, b"/ready": found.is_ready, b"": found.is_live and found.is_ready}
    if method not in (b"GET", b"HEAD"):
        status, document = "405 Method Not Allowed", {"error": "GET only"}
    elif path not in good:
        status, document = "404 Not Found", {"error": "there are /live and /ready"}
    else:
        status, document = "200 OK" if good[path] else "503 Service Unavailable", found.document()
    body = json.dumps(document).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
