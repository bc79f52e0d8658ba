"""Browsers that connect, subscribe and never read, in front of a real server: it keeps little, and serves others."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from tests import factories as make
from tests.deck.feed import session_of
from tests.helpers import ProjectProcess, wait_until
from tests.storage.support import committed

pytestmark = [
    committed,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="what a server keeps is the same whatever the engine"),
]
SILENT = 200
LISTENING = re.compile(r"Listening on TCP address 127\.0\.0\.1:(\d+)")


class Raw:
    """A WebSocket by hand; it reads what it is told to."""

    def __init__(self, port: int, session: str, buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)  # a window that is soon full
        self.socket.settimeout(15)
        self.socket.connect(("127.0.0.1", port))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /ws/chokaq/deck/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nOrigin: http://127.0.0.1:{port}\r\n"
            f"Cookie: {django_settings.SESSION_COOKIE_NAME}={session}\r\n\r\n".encode()
        )
        self.left = b""
        while b"\r\n\r\n" not in self.left:
            self.left += self.socket.recv(1)
        assert self.left.startswith(b"HTTP/1.1 101"), self.left
        self.left = b""

    def say(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        assert len(text) < 126
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(text))
        self.socket.sendall(bytes([0x81, 0x80 | len(text)]) + mask + masked)

    def frame(self) -> dict[str, Any] | None:
        """The next frame of text; None for any other."""
        kind, length = self._read(2)
        length &= 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._read(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._read(8))
        data = self._read(length)
        found: dict[str, Any] | None = json.loads(data) if kind & 0x0F == 1 else None
        return found

    def until(self, text: str) -> None:
        """Reads and answers frames until one says so."""
        while True:
            frame = self.frame()
            if frame is not None:
                self.say({"type": "ack", "frame": frame["frame"]})
                if text in json.dumps(frame):
                    return

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "closed"
            data += part
        return data


@pytest.fixture
def server() -> Iterator[tuple[ProjectProcess, int]]:
    daphne = ("-m", "daphne", "-b", "127.0.0.1", "-p", "0", "example_project.asgi:application")
    with ProjectProcess(*daphne, env={"REDIS_URL": ""}) as process:
        yield process, int(wait_until(lambda: LISTENING.search(process.output), 60, what="the server listens")[1])


def memory(process: ProjectProcess) -> float:
    """Megabytes of the process."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_they_cost_little_and_disturb_nobody(server: tuple[ProjectProcess, int]) -> None:
    process, port = server
    for number in range(200):
        make.queue(f"queue-{number}")
        make.running(progress_message="x" * 1_000)
    session = session_of(make.operator("view_deck", "view_payload", username="viewer"))
    with ExitStack() as stack:

        def opened(buffer: int | None = None) -> Raw:
            one = Raw(port, session, buffer)
            stack.callback(one.socket.close)
            one.say({"type": "subscribe", "topics": ["overview"]})
            return one

        reader = opened()
        reader.until("queue-199")
        before = memory(process)
        silent = [opened(2_048) for _ in range(SILENT)]
        for number in range(3):
            make.queue(f"another-{number}")
            for one in silent:
                one.say({"type": "resync", "topic": "overview"})
            reader.until(f"another-{number}")
        assert memory(process) - before < 40, "megabytes; a frame has a quarter of one"
