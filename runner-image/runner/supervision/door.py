"""The program's only way out: a Unix socket whose connections are carried over the leash to the daemon's gateway.

Its name is abstract: there is no file that a program could remove, and only this sandbox's network namespace knows it.
What the door holds is bounded by a window for each connection, and charged to the sandbox's own memory.
"""

from __future__ import annotations

import os
import select
from _collections_abc import Callable, Iterator
from _socket import AF_UNIX, SOCK_STREAM, socket  # the module around it would double the supervisor's start

from supervision import frames
from supervision.outbox import Outbox

MAX_CONNECTIONS = 128
_BACKLOG = 64

Watch = tuple[int, int, Callable[[], None]]


class Connection:
    """What the program may still send to the daemon, and what it has yet to take."""

    __slots__ = ("fd", "finishing", "may_send", "number", "unacknowledged", "unwritten")

    def __init__(self, number: int, fd: int) -> None:
        os.set_blocking(fd, False)
        self.number = number
        self.fd = fd
        self.may_send = frames.WINDOW_BYTES
        self.unwritten = bytearray()
        self.unacknowledged = 0
        self.finishing = False


class Door:
    """Moves bytes between the program's connections and the leash, without looking at them."""

    __slots__ = ("_connections", "_last_number", "_listener", "_outbox")

    def __init__(self, name: str, outbox: Outbox) -> None:
        self._listener = socket(AF_UNIX, SOCK_STREAM)
        self._listener.bind(b"\0" + name.removeprefix("@").encode())
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._outbox = outbox
        self._connections: dict[int, Connection] = {}
        self._last_number = 0

    def watches(self) -> Iterator[Watch]:
        """Yield what to wait for now: a descriptor, its events, and what to do then."""
        if self._outbox.full:
            readable = 0
        else:
            readable = select.POLLIN
            if len(self._connections) < MAX_CONNECTIONS:
                yield self._listener.fileno(), select.POLLIN, self._accept
        for connection in self._connections.values():
            events = readable if connection.may_send and not connection.finishing else 0
            if connection.unwritten:
                events |= select.POLLOUT
            if events:
                yield connection.fd, events, self._server(connection, reads=bool(events & select.POLLIN))

    def take(self, kind: bytes, payload: bytes) -> None:
        """Obey a frame of the daemon about one of the connections."""
        number, data = frames.numbered(payload)
        connection = self._connections.get(number)
        if connection is None:
            return  # it was closed while the frame was on its way
        if kind == frames.BYTES:
            connection.unwritten += data
            self._write(connection)
        elif kind == frames.WINDOW:
            connection.may_send += frames.numbered(data)[0]
        else:
            connection.finishing = True
            if not connection.unwritten:
                self._close(connection)

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # beneath accept(), and not in the stubs
        except OSError:
            return
        self._last_number += 1
        self._connections[self._last_number] = Connection(self._last_number, fd)
        self._outbox.put(frames.OPENED, frames.number(self._last_number))

    def _server(self, connection: Connection, *, reads: bool) -> Callable[[], None]:
        def serve() -> None:
            # What came over the leash in the same turn may have closed it.
            if connection.unwritten and connection.number in self._connections:
                self._write(connection)
            if reads and connection.number in self._connections:
                self._read(connection)

        return serve

    def _read(self, connection: Connection) -> None:
        try:
            data = os.read(connection.fd, min(frames.MAX_DATA_BYTES, connection.may_send))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            connection.may_send -= len(data)
            self._outbox.put(frames.BYTES, frames.number(connection.number) + data)
        else:
            self._finish(connection)

    def _write(self, connection: Connection) -> None:
        try:
            written = os.write(connection.fd, connection.unwritten)
        except BlockingIOError:
            return
        except OSError:
            self._finish(connection)
            return
        del connection.unwritten[:written]
        self._acknowledge(connection, written)
        if connection.finishing and not connection.unwritten:
            self._close(connection)

    def _acknowledge(self, connection: Connection, size: int) -> None:
        """Acknowledge half a window at a time: the daemon never stops, and a small answer needs no frame of its own."""
        connection.unacknowledged += size
        if connection.unacknowledged >= frames.WINDOW_BYTES // 2:
            window = frames.number(connection.number) + frames.number(connection.unacknowledged)
            self._outbox.put(frames.WINDOW, window)
            connection.unacknowledged = 0

    def _finish(self, connection: Connection) -> None:
        self._outbox.put(frames.FINISHED, frames.number(connection.number))
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        os.close(connection.fd)
        del self._connections[connection.number]
