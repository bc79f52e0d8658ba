"""A way to a database server that forgets connections without a word, as a firewall or a load balancer does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit


class _Pair:
    """Two sockets, and what comes in at one goes out at the other."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.sockets = (near, far)
        self.forgotten = False
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.forgotten:
                    target.sendall(data)
        # Of an end, too, nobody hears who is behind a connection that is forgotten.
        if not self.forgotten:
            self.close()

    def close(self) -> None:
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # which wakes who reads from it


class Proxy:
    """Listens at ``port`` of this machine and passes on to ``(host, port)``."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._pairs: list[_Pair] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, direct: str) -> str:
        """The URL of a database of the server, by this way."""
        parts = urlsplit(direct)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}"))

    def forget(self) -> int:
        """Pass on nothing more of what is connected now, and close nothing; how many connections that are. New ones are
        connected as before."""
        with self._lock:
            for pair in self._pairs:
                pair.forgotten = True
            return len(self._pairs)

    def end_forgotten(self) -> None:
        """Close them, for those who still wait: they have nothing to hear any more."""
        with self._lock:
            for pair in self._pairs:
                if pair.forgotten:
                    pair.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target, 30)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._pairs.append(_Pair(near, far))

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for pair in self._pairs:
                pair.close()
